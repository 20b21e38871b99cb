"""A report as what a person reads: the renderables of every part, in the order of the command."""

import io
from collections.abc import Iterator
from itertools import groupby

import numpy as np
from rich.console import Console, RenderableType
from rich.style import Style
from rich.text import Text

from attn_cli.prompt import Generated
from attn_cli.summaries.answers.check import Check
from attn_cli.summaries.answers.decode import Decoding
from attn_cli.summaries.answers.steps import Steps
from attn_cli.summaries.calls.image_grid import patch_grid
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.heads.head_statistics import Heads
from attn_cli.summaries.reducers.masked import Masked
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.reducers.output import Outputs
from attn_cli.summaries.reducers.overall import Overall
from attn_cli.summaries.reducers.received import Received
from attn_cli.summaries.reducers.top import Top
from attn_cli.summaries.report import Report
from attn_cli.text import visible
from attn_cli.views.answers.check import check_lines
from attn_cli.views.answers.decode import decode_lines
from attn_cli.views.answers.steps import step_lines
from attn_cli.views.drawing.ascii import in_ascii, marks_in_ascii
from attn_cli.views.drawing.cells import packed
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.image import query_maps, received_maps
from attn_cli.views.drawing.labels import (
    head_rows,
    heads_table,
    labelled,
    marked,
    masked_rows_note,
    overall_lines,
    received_lines,
    sharpest,
    top_lines,
    which_heads,
)
from attn_cli.views.drawing.screen import Screen

_DIM = Style(dim=True)
_BOLD = Style(bold=True)
_SHARPEST = 8
_MANY_HEADS = 24
_MANY_TOKENS = 200
_FEW_PATCHES = 6


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
    if screen.ascii_only:
        report = in_ascii(report)
    console = console_for(screen)
    for renderable in renderables(report, screen):
        console.print(renderable, soft_wrap=False)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    text = "\n".join(line.rstrip() for line in text.split("\n")) if screen.depth == "none" else text
    return marks_in_ascii(text) if screen.ascii_only else text


def renderables(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """Everything to print for `report`, parts separated by blank lines."""
    yield _header(report, screen)
    if report.finding is not None:
        from attn_cli.views.findings import finding_renderables

        yield from finding_renderables(report, screen)
    if report.command == "inspect":
        yield _tokens(report, screen)
    summaries = report.summaries
    if any(summary.part(Heads) for summary in summaries):
        yield ""
        yield from _heads(report, screen)
    if any(summary.part(Received) for summary in summaries):
        yield ""
        yield Text("most attended · share of all attention received" + _mean_over(summaries), _BOLD)
        yield from received_lines(summaries, 6, screen)
        yield from received_maps(summaries, screen, _scale(report))
    for summary in summaries:
        for part in summary.parts:
            if isinstance(part, Top):
                yield ""
                yield from top_lines(summary, part, screen)
            elif isinstance(part, Overall):
                yield ""
                yield from overall_lines(summary, part, screen)
            elif isinstance(part, Matrix):
                yield from _matrices(report, summary, part, screen)
            elif isinstance(part, Check):
                yield ""
                yield from check_lines(part, _where(report, summary), summary, screen)
            elif isinstance(part, Decoding):
                yield ""
                yield from decode_lines(summary, part, _where(report, summary), screen)
            elif isinstance(part, Steps):
                yield from step_lines(summary, part, screen)
            elif isinstance(part, Masked):
                count = int(part.rows.max(initial=0))
                if count:
                    rows = "1 row may" if count == 1 else f"{count} rows may"
                    yield Text(f"{rows} attend to nothing: weights and output 0", _DIM)
            elif isinstance(part, Outputs):
                yield from _outputs(report, summary, part, screen)
    if report.command == "top" and any(summary.part(Overall) for summary in summaries):
        yield Text("too many queries to show each: --token picks some, -f jsonl has all", _DIM)


def _header(report: Report, screen: Screen) -> Text:
    title = Text()
    if report.index is not None:
        title.append(f"[{report.index}] ", _BOLD)
    for number, prompt in enumerate((report.prompt, *(report.others or ())), 1):
        text = prompt.text if prompt.generated is None else prompt.text[: prompt.generated.start]
        if text:
            title.append(f"{number} · " if report.others else "", _BOLD)
            title.append(_short(text), _BOLD).append("\n")
        for kind, file in prompt.files.items():
            title.append(f"{kind} {visible(file)}\n", _DIM)
        if prompt.generated is not None:
            title.append(_answer(prompt.generated) + "\n")
    return title.append("\n".join(packed(list(_about(report)), screen.width)), _DIM)


def _answer(generated: Generated) -> str:
    """What the model wrote, and that it came to an end where it did."""
    if not generated.tokens:
        return "wrote nothing: ended at once"
    ended = " and ended" if generated.ended else ""
    text = generated.text.strip() or generated.text
    return f"+ wrote {_counted(generated.tokens, 'token')}{ended}" + (f": {_short(text)}" if text else "")


def _about(report: Report) -> Iterator[str]:
    """Where the answer comes from and how much there is of everything."""
    source, summaries = report.source, report.summaries
    yield visible(str(source["model"]))
    if "projections" in source:
        yield f"projections {visible(str(source['projections']))}"
    if "lead" in report.options:
        first = summaries[0]
        if report.options["lead"]:
            yield f"batch of {' x '.join(map(str, report.options['lead']))}"
        yield _counted(len(first.place.heads), "head")
        n = len(first.queries)
        yield f"{n} {'query' if n == 1 else 'queries'}, {_counted(len(first.keys), 'key')}"
    else:
        if source["type"] not in ("table", "cost", "demonstration"):
            yield f"{source['dtype']}"
            yield f"{source['device']}"
        if summaries:
            heads = sum(len(summary.place.heads) for summary in summaries)
            layers = len({(summary.place.stream, summary.place.layer) for summary in summaries})
            yield f"{_counted(layers, 'layer')}, {_counted(heads, 'head')}"
            if report.prompt.tokens:
                yield _tokens_counted(report)
            if "merged" in report.options:
                yield "words: keys summed, queries averaged"
    rules = {_rule_words(summary) for summary in summaries}
    if len(rules) == 1:
        yield rules.pop()


def _tokens_counted(report: Report) -> str:
    count = len(report.prompt.tokens)
    before = report.options.get("merged", count)
    return _counted(before, "token") + (f", merged to {count}" if count < before else "")


def _units(report: Report) -> str:
    """What rows and columns are."""
    return "words" if "merged" in report.options else "tokens"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _rule_words(summary: Summary) -> str:
    rule = summary.rule
    if rule["scale"] is None:  # only the model's own code knows
        return str(rule["mask"])
    if rule["scale"] == 0:
        return f"{'uniform' if rule['softmax'] else 'given'} weights, {rule['mask']}"
    words = [f"scale {rule['scale']:.4g}", str(rule["mask"])]
    if rule["softcap"] is not None:
        words.append(f"softcap {rule['softcap']:g}")
    words += [name for name in ("bias", "sink") if rule[name]]
    words += [] if rule["softmax"] else ["no softmax"]
    return ", ".join(words)


def _short(text: str, longest: int = 200) -> str:
    text = visible(text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _tokens(report: Report, screen: Screen) -> Text:
    """`0 he  1 sat  2 on`, as many lines as it takes, never broken inside a token; the patches of an image at once."""
    shown: list[str] = []
    count = 0
    for is_patch, run in groupby(report.prompt.tokens, lambda token: (token.row, token.piece) != (None, None)):
        tokens = list(run)
        if is_patch and len(tokens) > _FEW_PATCHES:
            patches = [visible(token.text) for token in tokens if token.row is not None]
            shown.append(f"{tokens[0].index}-{tokens[-1].index} {patches[0]} to {patches[-1]}")
        else:
            shown += [labelled(token) for token in tokens[: max(0, _MANY_TOKENS - count)]]
            count += len(tokens)
    shown += [f"… {count - _MANY_TOKENS} more"] if count > _MANY_TOKENS else []
    return Text("\n".join(packed([_units(report), *shown], screen.width, "  ")))


def _heads(report: Report, screen: Screen) -> Iterator[RenderableType]:
    rows = head_rows(report.summaries)
    if report.command == "inspect" and len(rows) > _MANY_HEADS:
        yield Text(f"the {_SHARPEST} sharpest of {len(rows)} heads, by entropy · attn heads lists all", _BOLD)
        rows = sharpest(rows, _SHARPEST)
    yield from heads_table(rows, screen, unit=_units(report)[:-1])
    note = masked_rows_note(report.summaries)
    if note is not None:
        yield note


def _matrices(report: Report, summary: Summary, matrix: Matrix, screen: Screen) -> Iterator[RenderableType]:
    grid = patch_grid(summary.keys) if matrix.rows is not None and matrix.block == (1, 1) else None
    if grid is not None:
        yield from query_maps(summary, matrix, grid, _where(report, summary), screen, _scale(report))
        return
    rows = matrix.row_numbers(summary)
    alone = report.command == "compute" and len(summary.head_names(matrix.averaged)) == 1
    for kind, values in (("scores", matrix.scores), ("weights", matrix.weights)):
        for at, head in enumerate(summary.head_names(matrix.averaged) if values is not None else ()):
            which = which_heads(matrix.averaged, head)
            yield ""
            yield HeatMap(
                values[at],  # type: ignore[index]
                kind,
                _where(report, summary) + (kind if alone else f"{which} · {kind}"),
                [marked(summary.queries[row]) for row in rows],
                [marked(token) for token in summary.keys],
                screen,
                scale=_scale(report),
                block=matrix.block,
                pooling=matrix.pooling,
                row_numbers=[summary.queries[row].index for row in rows],
                scale_option="--color-scale" if report.command == "compute" else "--scale",
            )


def _scale(report: Report) -> str:
    return str(report.options.get("scale", "linear"))


def _outputs(report: Report, summary: Summary, outputs: Outputs, screen: Screen) -> Iterator[RenderableType]:
    for values, name in zip(outputs.values, outputs.names, strict=True):
        yield ""
        yield HeatMap(
            values,
            "output",
            _where(report, summary) + name,
            [token.text for token in summary.queries],
            [str(column) for column in range(values.shape[1])],
            screen,
            column_word="dimensions",
        )


def _where(report: Report, summary: Summary) -> str:
    """The layer, or the entry of a batch of matrices, before the name of a map."""
    place = summary.place
    if "lead" not in report.options:
        return f"layer {place.layer} {'' if place.stream == 'self' else place.stream + ' '}"
    lead = report.options["lead"]
    return f"batch {','.join(str(int(at)) for at in np.unravel_index(place.text, lead))} · " if lead else ""


def _mean_over(summaries: tuple[Summary, ...]) -> str:
    heads = sum(len(summary.place.heads) for summary in summaries)
    return f" · mean of {heads} heads" if heads > 1 else ""
