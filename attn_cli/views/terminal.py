"""A report as what a person reads: the renderables of every part, in the order of the command."""

import io
from collections.abc import Iterator
from itertools import islice

from rich.console import Console, RenderableType
from rich.style import Style
from rich.text import Text

from attn_cli.summaries.heads import Heads
from attn_cli.summaries.matrix import Matrix
from attn_cli.summaries.output import Outputs
from attn_cli.summaries.received import Received
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report
from attn_cli.summaries.top import Top
from attn_cli.views.heatmap import HeatMap
from attn_cli.views.screen import Screen, packed
from attn_cli.views.tables import (
    head_rows,
    heads_legend,
    heads_table,
    masked_rows_note,
    received_lines,
    sharpest,
    top_lines,
)
from attn_cli.views.tokens import visible

_DIM = Style(dim=True)
_BOLD = Style(bold=True)
_SHARPEST = 8
_MANY_HEADS = 24


def console_for(screen: Screen, *, record: bool = False) -> Console:
    """A Rich console that prints for `screen` into memory: nothing here asks the real terminal again."""
    return Console(
        file=io.StringIO(),
        width=screen.width,
        height=1000,
        color_system={"truecolor": "truecolor", "256": "256", "16": "standard"}.get(screen.depth),  # type: ignore[arg-type]
        force_terminal=screen.depth != "none",
        no_color=screen.depth == "none",
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        record=record,
        _environ={},
    )


def render(report: Report, screen: Screen) -> str:
    """The report as text, with escape codes if the screen has colours."""
    console = console_for(screen)
    for renderable in renderables(report, screen):
        console.print(renderable, soft_wrap=False)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    text = "\n".join(line.rstrip() for line in text.split("\n")) if screen.depth == "none" else text
    return text.encode("ascii", "backslashreplace").decode() if screen.ascii_only else text


def renderables(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """Everything to print for `report`, parts separated by blank lines."""
    yield _header(report, screen)
    if report.command == "inspect":
        yield _tokens(report)
    summaries = report.summaries
    if any(summary.part(Heads) for summary in summaries):
        yield ""
        yield from _heads(report, screen)
    if any(summary.part(Received) for summary in summaries):
        yield ""
        yield Text("most attended · share of all attention received" + _mean_over(summaries), _BOLD)
        yield from received_lines(summaries, 6, screen)
    for summary in summaries:
        for part in summary.parts:
            if isinstance(part, Top):
                yield ""
                yield from top_lines(summary, part, screen)
            elif isinstance(part, Matrix):
                yield from _matrices(report, summary, part, screen)
            elif isinstance(part, Outputs):
                yield from _outputs(summary, part, screen)


def _header(report: Report, screen: Screen) -> Text:
    source, layers = report.source, report.summaries
    numbers = sorted({summary.place.layer for summary in layers})
    heads = sum(len(summary.place.heads) for summary in layers)
    parts = [visible(str(source["model"]))]
    if source.get("type") not in ("table", "matrices"):
        parts += [str(source["dtype"]), str(source["device"])]
    parts.append(f"{len(numbers)} layer{'s' * (len(numbers) != 1)}, {heads} head{'s' * (heads != 1)}")
    if report.prompt.tokens:
        count = len(report.prompt.tokens)
        parts.append(f"{count} token{'s' * (count != 1)}")
    rules = {_rule_words(summary) for summary in layers}
    if len(rules) == 1:
        parts.append(rules.pop())
    title = Text()
    if report.index is not None:
        title.append(f"[{report.index}] ", _BOLD)
    if report.prompt.text:
        title.append(_short(report.prompt.text), _BOLD).append("\n")
    return title.append("\n".join(packed(parts, screen.width)), _DIM)


def _rule_words(summary: Summary) -> str:
    rule = summary.rule
    words = [f"scale {rule['scale']:.4g}", str(rule["mask"])]
    if rule["softcap"] is not None:
        words.append(f"softcap {rule['softcap']:g}")
    words += [name for name in ("bias", "sink") if rule[name]]
    return ", ".join(words)


def _short(text: str, longest: int = 200) -> str:
    text = visible(text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _tokens(report: Report) -> Text:
    line = Text("tokens ", _DIM)
    for token in islice(report.prompt.tokens, 200):
        line.append(" ").append(f"{token.index}", _DIM).append(" ")
        line.append(visible(token.text), _DIM if token.special else None)
    if len(report.prompt.tokens) > 200:
        line.append(" …", _DIM)
    return line


def _heads(report: Report, screen: Screen) -> Iterator[RenderableType]:
    rows = head_rows(report.summaries)
    if report.command == "inspect" and len(rows) > _MANY_HEADS:
        yield Text(f"the {_SHARPEST} sharpest of {len(rows)} heads, by entropy · attn heads lists all", _BOLD)
        rows = sharpest(rows, _SHARPEST)
    yield heads_table(rows, screen)
    yield heads_legend()
    note = masked_rows_note(report.summaries)
    if note is not None:
        yield note


def _matrices(report: Report, summary: Summary, matrix: Matrix, screen: Screen) -> Iterator[RenderableType]:
    place = summary.place
    for kind, values in (("scores", matrix.scores), ("weights", matrix.weights)):
        if values is None:
            continue
        for at, head in enumerate(matrix.head_names(summary)):
            which = f"mean of {matrix.averaged} heads" if matrix.averaged else f"head {head}"
            where = "" if place.stream == "self" else f" {place.stream}"
            if report.command == "compute":
                title = kind if len(matrix.head_names(summary)) == 1 else f"{kind} · head {head}"
                title = title if place.text == 0 and len(report.summaries) == 1 else f"batch {place.text} · {title}"
            else:
                title = f"layer {place.layer}{where} {which} · {kind}"
            yield ""
            yield HeatMap(
                values[at],
                kind,
                title,
                [summary.queries[row].text for row in matrix.row_numbers(summary)],
                [token.text for token in summary.keys],
                screen,
                scale=str(report.options.get("scale", "linear")),
                block=matrix.block,
                pooling=matrix.pooling,
                row_numbers=list(matrix.row_numbers(summary)),
            )


def _outputs(summary: Summary, outputs: Outputs, screen: Screen) -> Iterator[RenderableType]:
    for at, name in enumerate(outputs.names):
        values = outputs.values[at]
        yield ""
        yield HeatMap(
            values,
            "output",
            name,
            [token.text for token in summary.queries],
            [str(column) for column in range(values.shape[1])],
            screen,
            axes="rows = queries, columns = value dimensions",
        )


def _mean_over(summaries: tuple[Summary, ...]) -> str:
    heads = sum(len(summary.place.heads) for summary in summaries)
    return f" · mean of {heads} heads" if heads > 1 else ""
