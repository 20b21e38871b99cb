"""attn heads --against: a line per head, those that change most first."""

from collections.abc import Iterator
from textwrap import wrap

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.against.head_changes import HeadChanges
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report
from attn_cli.text import counted
from attn_cli.views.drawing.bars import bar, bar_width
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM

_MANY_HEADS = 24  # of more heads a screen shows only so many of the first, unless --top says how many
_FIRST = 12


def draw(changes: HeadChanges, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The heads of all layers in one order, with a bar for the number that they are ordered by."""
    heads = [
        (each, at, {"change": float(part.changes[at]), "last_change": float(part.last_changes[at])})
        for each in report.summaries
        if (part := each.part(HeadChanges)) is not None
        for at in range(len(each.place.heads))
    ]
    ranking = report.ranking
    assert ranking is not None
    rows = ranking.of(heads, lambda head: head[2][ranking.column])
    if ranking.count is None and len(rows) > _MANY_HEADS:
        rows = rows[:_FIRST]
    streams = len(report.streams) > 1
    yield ""
    some = f"{len(rows)} of {len(heads)} heads" if len(rows) < len(heads) else counted(len(heads), "head")
    yield Text(f"{some} {ranking.words}", BOLD)
    yield Text(f"{'stream   ' if streams else ''}  head  change  last row", BOLD)
    for each, at, numbers in rows:
        stream = f"{each.place.stream:<9}" if streams else ""
        name = f"{each.place.layer}.{each.place.heads[at]}"
        line = f"{stream}{name:>6}  {_number(numbers['change'])}  {_number(numbers['last_change'])}"
        value = numbers[ranking.column]
        length = bar(0.0 if np.isnan(value) else value, bar_width(screen, len(line) + 2))
        yield Text(f"{line}    {length}".rstrip()) if screen.width >= len(line) + 8 else Text(line)
    means = [np.nanmean([numbers[name] for *_, numbers in heads]) for name in ("change", "last_change")]
    last = "" if changes.last_row is None else f"last row: {token_label(summary.queries[changes.last_row])}"
    if ranking.count is None and len(rows) < len(heads):
        yield Text(f"--top {len(heads)} lists all", DIM)
    parts = [f"change: the share of a row's weight that moves, mean over {counted(changes.rows, 'paired row')}", last,
             f"mean of all heads {means[0]:.3f}, last row {means[1]:.3f}"]  # fmt: skip
    yield Text("\n".join(wrap(" · ".join(part for part in parts if part), screen.width)), DIM)


def _number(value: float) -> str:
    return "     -" if np.isnan(value) else f"{value:6.3f}"
