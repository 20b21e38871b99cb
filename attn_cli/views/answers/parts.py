"""The parts of a text as lines, those that the answer needed most first, with bars."""

from collections.abc import Iterator
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from attn_cli.selection import ranges
from attn_cli.summaries.answer import Answer
from attn_cli.summaries.parts.answer import part_name
from attn_cli.summaries.report import Report
from attn_cli.text import counted
from attn_cli.views.answers.knock import answer_line
from attn_cli.views.drawing.cells import DIM, fit
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.table import finding_lines, legend_lines, table_lines

_TEXT = 24  # columns of a part's text


def draw(answer: Answer, report: Report, screen: Screen) -> Iterator[Text | str]:
    """Lines: the findings, the answer, and the parts by what it loses without each; sinks have no line of their own."""
    yield from finding_lines(answer, screen)
    if answer["run"][0]["run_mode"]:
        yield from wrap(answer_line(answer), screen.width)
    effect = "hidden_bits" if answer["answer"] else "hidden_cosine_distance" if answer["run"][0]["vector"] else ""
    rows = [row for row in answer["parts"] if row["kind"] != "generated" and not row["is_sink"]]
    shown = rows[: answer.shown]
    room = min(_TEXT, screen.width // 3)
    asks = {row["part"]: " (asks)" for row in shown if row["kind"] == "given" and not row["is_context"]}
    names = [fit(part_name(row) + asks.get(row["part"], ""), room).rstrip() for row in shown]
    width = max(map(cell_len, names), default=0)
    labels = []
    for name, row in zip(names, shown, strict=True):
        with_text = f"{fit(name, width)}  {fit(' '.join(row['text'].split()), room)}".rstrip()
        labels.append(f"{name} {row['key']}" if row["name"].startswith("word ") else with_text)
    if not shown:
        return
    yield ""
    yield from table_lines(shown, labels, [effect, "share"] if effect else ["share"], screen, effect or "share")
    if len(shown) < len(rows):
        yield Text(f"  … {counted(len(rows) - len(shown), 'more part')}", DIM)
    yield from legend_lines(list(_legend(answer, effect)), screen)


def _legend(answer: Answer, effect: str) -> Iterator[str]:
    rows = [row["row"] for row in answer["rows"]]
    these = f"row {rows[0]}" if len(rows) == 1 else f"rows {ranges(rows)}"
    if effect:
        change = "change of the answer's log2 p" if effect == "hidden_bits" else "distance of the mean vector"
        where = "all later rows" if answer["run"][0]["everywhere"] else these
        shown = sum(row["tokens"] for row in answer["parts"] if row["is_sink"]) < len(answer["sinks"])
        kept = ", its sinks stay visible" * (shown and effect == "hidden_bits" and answer["run"][0]["stream"] == "self")
        yield f"{'bits' if effect == 'hidden_bits' else '1 - cos'}: {change} with the part hidden from {where}{kept}"
    yield f"share: of the attention of {these}, sinks counted"
