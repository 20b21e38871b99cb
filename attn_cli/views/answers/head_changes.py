"""attn heads --against: a line per head, those that change most first."""

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

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
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import against_again

_MANY_HEADS = 24  # of more heads a screen shows only so many of the first, unless --top says how many
_FIRST = 12


def draw(changes: HeadChanges, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The heads of all layers by how much of a row's weight moves between two runs, 0 to 1, each with a bar.

    In the order that was asked for: by the mean over rows, or by the last row.
    """
    every, ranking = list(_records(report)), report.ranking
    assert ranking is not None
    rows = report.ordered(every)
    if ranking.count is None and len(rows) > _MANY_HEADS:
        rows = rows[:_FIRST]
    streams = len(report.streams) > 1
    yield ""
    some = f"{len(rows)} of {len(every)} heads" if len(rows) < len(every) else counted(len(every), "head")
    yield Text(f"{some} {ranking.words}", BOLD)
    yield Text(f"{'stream   ' if streams else ''}  head  change  last row", BOLD)
    for row in rows:
        stream = f"{row['stream']:<9}" if streams else ""
        line = f"{stream}{_name(row):>6}  {_number(row['change'])}  {_number(row['last_change'])}"
        value = row[ranking.column]
        length = bar(0.0 if np.isnan(value) else value, bar_width(screen, len(line) + 2))
        yield Text(f"{line}    {length}".rstrip()) if screen.width >= len(line) + 8 else Text(line)
    means = [np.nanmean([row[name] for row in every]) for name in ("change", "last_change")]
    last = "" if changes.last_row is None else f"last row: {token_label(summary.queries[changes.last_row])}"
    if ranking.count is None and len(rows) < len(every):
        yield Text(f"--top {len(every)} lists all", DIM)
    parts = [f"change: the share of a row's weight that moves, mean over {counted(changes.rows, 'paired row')}", last,
             f"mean of all heads {means[0]:.3f}, last row {means[1]:.3f}"]  # fmt: skip
    yield Text("\n".join(wrap(" · ".join(part for part in parts if part), screen.width)), DIM)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the keys between which the first listed head's weight moves in the last row of both texts.

    None for piped input, and where no query is in both texts.
    """
    first = next(iter(report.ordered(_records(report))), None)
    if first is None or first["last_row"] is None:
        return None
    return against_again("top", report, invocation, "-H", _name(first), "-t", str(first["last_row"]))


def _records(report: Report) -> Iterator[dict[str, Any]]:
    """A row for every head, with the last row that is paired in its call."""
    for summary, part in report.parts_of(HeadChanges):
        yield from (report.lead(summary) | row | {"last_row": part.last_row} for row in part.records(summary))


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['layer']}.{row['head']}"


def _number(value: float) -> str:
    return "     -" if np.isnan(value) else f"{value:6.3f}"
