"""The heads that an answer rests on: a line per head, its effect as a number and a bar, and what it attends to."""

from collections.abc import Iterator

from rich.text import Text

from attn_cli.selection import ranges
from attn_cli.summaries.answer import Answer, head_name
from attn_cli.summaries.report import Report
from attn_cli.summaries.told.story import percent
from attn_cli.text import counted, quoted
from attn_cli.views.drawing.cells import fit
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.table import finding_lines, legend_lines, table_lines

_COLUMNS = ("bits", "cosine_distance", "loss_bits", "key_token", "weight")


def draw(knock: Answer, report: Report, screen: Screen) -> Iterator[Text | str]:
    """Lines: the findings, and the heads that the answer needs most, by what it loses without each."""
    yield from finding_lines(knock, screen)
    yield Text(fit(answer_line(knock), screen.width).rstrip())
    yield ""
    effect = "bits" if knock["run"][0]["vector"] is None else "cosine_distance"
    rows = knock["heads"][: knock.shown]
    if effect == "bits":
        rows = [row for row in rows if row["bits"] < 0] or rows[:1]
    together = list(knock["together"])
    labels = [*("together" for _ in together), *map(head_name, rows)]
    yield from table_lines([*together, *rows], labels, _COLUMNS, screen, bars=effect)
    yield from legend_lines(list(knock_legend(knock, effect)), screen)


def answer_line(knock: Answer) -> str:
    """What was predicted, generated or compared."""
    run, answer = knock["run"][0], knock["answer"]
    if not answer:
        return "compared: the mean vector"
    p = run["probability"]
    if len(answer) == 1:
        return f"next {quoted(answer[0]['token'])} {percent(p)}"
    return f"answer of {counted(len(answer), 'token')} · probability {p:.2g}, {p ** (1 / len(answer)):.2g} a token"


def knock_legend(knock: Answer, effect: str) -> Iterator[str]:
    """What the effect is, and of what change."""
    run, rows = knock["run"][0], knock["rows"]
    ablated = "set to its mean" if run["mean"] else "set to 0"
    if run["everywhere"]:
        where = f"in all {counted(len(rows), 'row')}"
    elif len(rows) > 1:
        where = f"in rows {ranges([row['row'] for row in rows])}"
    else:
        where = f"at {quoted(rows[0]['token'])} {rows[0]['row']}"
    change = "change of the answer's log2 p" if effect == "bits" else "distance of the vector"
    yield f"{'bits' if effect == 'bits' else '1 - cos'}: {change} with the head's output {ablated} {where}"
