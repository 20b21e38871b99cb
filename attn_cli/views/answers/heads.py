"""Per-head statistics as a table: a line per head, a column per statistic."""

from collections.abc import Collection, Iterator, Sequence
from textwrap import wrap
from typing import NamedTuple

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.heads.head_statistics import Heads
from attn_cli.summaries.reducers.heads.statistics import (
    STATISTICS,
    Statistic,
    first_weight,
    followers,
    induction_weight,
)
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.report import Report
from attn_cli.summaries.text_sinks import sink_words, text_sinks
from attn_cli.summaries.told.head_families import any_judged, finding
from attn_cli.text import counted
from attn_cli.views.drawing.cells import packed, packed_text
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.palette import Ramp, background
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import matrix_of_head

_MANY_HEADS = 24  # an overview with more heads shows only this many of the sharpest
_SHARPEST = 8
_TOP = 15  # heads at the top of an order of which is told what they do
_FEWEST = 3  # heads at the top, of which a sentence is said
_MOSTLY, _NEARLY_ALL = 0.5, 0.8  # of a head's weight on one place, and of the heads that have it
_NOT_IN_OVERVIEW = frozenset({"max_score"})
_PLACES = {
    first_weight.__name__: "the first token",
    "previous_weight": "the token before",
    "self_weight": "their own token",
}


class HeadRow(NamedTuple):
    """One head's line in a table.

    summary  its layer
    heads    the statistics of the layer's heads, arrays `[h]`
    at       its index in these
    """

    summary: Summary
    heads: Heads
    at: int


def draw(heads: Heads, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """A table of the statistics of all heads of all layers, in the order that was asked for."""
    rows, ranking = head_rows(report.summaries), report.ranking
    masked = sum(int(part.masked_rows.max(initial=0)) for _, part in report.parts_of(Heads))
    note = [Text(f"{masked} rows are fully masked: left out of the means", DIM)] if masked else []
    if is_abridged(report):
        if not any_judged(report.summaries):
            yield from _sharpest(rows, _SHARPEST, report, screen)
            yield from note
        return
    yield ""
    if ranking is not None:
        ordered = _ranked(rows, ranking)
        for said in _findings(ordered, report.summaries, ranking):
            yield Text("\n".join(packed([said], screen.width)), BOLD)
        yield Text(_ranking_title(rows, ranking), BOLD)
        rows = ordered
    left_out = _NOT_IN_OVERVIEW if report.command == "inspect" else frozenset[str]()
    kept = ranking.column if ranking else ""
    yield from heads_table(rows, screen, unit=report.unit, kept=kept, left_out=left_out)
    yield from note


def is_abridged(report: Report) -> bool:
    """True for an overview of more than 24 heads, which shows no line for each."""
    return report.is_overview and len(head_rows(report.summaries)) > _MANY_HEADS


def _sharpest(rows: Sequence[HeadRow], count: int, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The heads that look most sharply past the sinks, and why none is named."""
    is_judged = bool(with_part(report.summaries, HeadKinds))
    past = ", sinks excluded" if is_judged else ", by entropy"
    yield ""
    yield packed_text([f"the {count} most focused of {len(rows)} heads{past}", "attn heads lists all"], screen, BOLD)
    if is_judged:
        yield packed_text([finding(report.summaries)], screen, DIM)
    yield from heads_table(sharpest(rows, count), screen, unit=report.unit)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the matrix of the first head as sorted, else of the most pointed one."""
    rows = head_rows(report.summaries)
    rows = sharpest(rows, 1) if report.ranking is None else _ranked(rows, report.ranking)
    return matrix_of_head(rows[0].summary, rows[0].at, report, invocation) if rows else None


def _ranked(rows: Sequence[HeadRow], ranking: Ranking) -> list[HeadRow]:
    return ranking.of(rows, lambda row: float(row.heads.statistics[ranking.column][row.at]))


def _findings(ordered: Sequence[HeadRow], summaries: Sequence[Summary], ranking: Ranking) -> list[str]:
    """The work of the heads at the top of an order: `the first 15 heads give the token before 0.97 of their weight or
    more (mean over rows)`; before it, of heads that rest on the first token, what the sinks are.
    """
    top = [row for row in ordered if not np.isnan(row.heads.statistics[ranking.column][row.at])][:_TOP]
    if len(top) < _FEWEST or len(head_rows(summaries)) < _MANY_HEADS:
        return []
    for column, place in _PLACES.items():
        weights = np.array([row.heads.statistics[column][row.at] for row in top])
        resting = weights >= _MOSTLY
        if resting.sum() >= _NEARLY_ALL * len(top):
            who = f"the first {len(top)}" if resting.all() else f"{resting.sum()} of the first {len(top)}"
            is_first = column == first_weight.__name__
            name = f", {token_label(top[0].summary.keys[0])}," if is_first else ""
            every = head_rows(summaries)
            half = sum(row.heads.statistics[column][row.at] >= _MOSTLY for row in every)
            said = f"{half} of {len(every)} heads give {place}{name} half of their weight or more, {who} "
            said += f"{weights[resting].min():.2f} or more"
            return [*(sink_words(text_sinks(with_part(summaries, HeadKinds))) if is_first else []), said]
    return []


def _ranking_title(rows: Sequence[HeadRow], ranking: Ranking) -> str:
    if all(np.isnan(row.heads.statistics[ranking.column][row.at]) for row in rows):
        return f"no head has a number for {ranking.heading} here"
    shown = len(rows) if ranking.count is None else min(len(rows), ranking.count)
    some = f"{shown} of {len(rows)} heads" if shown < len(rows) else counted(len(rows), "head")
    return " · ".join([f"{some} {ranking.words}", *_mean_of_some_rows(rows[0].summary, ranking)])


def _mean_of_some_rows(summary: Summary, ranking: Ranking) -> Iterator[str]:
    """The number of rows behind a mean over some rows, and its value under uniform attention; else none."""
    if ranking.column != induction_weight.__name__:
        return
    keys = followers(summary.keys)[len(summary.keys) - len(summary.queries) :]
    found = np.flatnonzero(keys >= 0)
    if not len(found):
        return
    yield f"mean of {counted(len(found), 'row')}"
    mask, m = str(summary.rule["mask"]), len(summary.keys)
    if mask == "causal":
        yield f"baseline {np.mean(1 / (m - len(summary.queries) + found + 1)):.2f}"
    elif mask == "no mask":
        yield f"baseline {1 / m:.2f}"


def head_rows(summaries: Sequence[Summary]) -> list[HeadRow]:
    """The heads of all layers that have statistics, a row each."""
    parts = with_part(summaries, Heads)
    return [HeadRow(summary, heads, at) for summary, heads in parts for at in range(len(summary.place.heads))]


def sharpest(rows: Sequence[HeadRow], count: int) -> list[HeadRow]:
    """The `count` heads that give most to one key that is no sink, most first."""

    def order(row: HeadRow) -> float:
        kinds = row.summary.part(HeadKinds)
        return float(row.heads.entropy_bits[row.at]) if kinds is None else -float(kinds.peaks.focus[row.at])

    return sorted(rows, key=order)[:count]


def heads_table(
    rows: Sequence[HeadRow], screen: Screen, unit: str = "token", kept: str = "",
    left_out: Collection[str] = (),
) -> Iterator[Table | Text]:  # fmt: skip
    """One line per head, and what its columns mean; columns without information or room are left out."""
    grouped = any(row.summary.place.heads != row.summary.place.groups for row in rows)
    streams = {row.summary.place.stream for row in rows} != {"self"}
    lead = [*(["stream"] if streams else []), "layer", "head", *(["kv"] if grouped else [])]
    values = {
        statistic: np.array([row.heads.statistics[statistic.name][row.at] for row in rows]) for statistic in STATISTICS
    }
    columns = [each for each in STATISTICS
               if each.name not in left_out and (each.name == kept or not each.says_nothing(values[each]))]  # fmt: skip
    rest = [None if heads.rest is None else float(heads.rest[at]) for _, heads, at in rows]
    lead += ["left"] if any(each is not None for each in rest) else []
    missing = []
    while len("  ".join([*lead, *(column.heading for column in columns)])) > screen.width and len(columns) > 1:
        missing.append(columns.pop(-2 if columns[-1].name == kept else -1))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=BOLD)
    for heading in (*lead, *(column.heading for column in columns)):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, (summary, _, at) in enumerate(rows):
        place = summary.place
        cells = [Text(place.stream)] if streams else []
        cells += [Text(str(place.layer)), Text(str(place.heads[at]))]
        cells += [Text(str(place.groups[at]))] if grouped else []
        left = rest[number]
        cells += [Text("-" if left is None else f"{left:.2f}")] if "left" in lead else []
        for column in columns:
            value = float(values[column][number])
            style = background(value, Ramp(0.0, 1.0), screen.depth) if column.unit == "weight" else PLAIN
            cells.append(Text("-" if np.isnan(value) else f"{value:.{column.digits}f}", style))
        table.add_row(*cells)
    yield table
    legend = "kv: the key/value head that it reads · " if grouped else ""
    legend += "left: weight on keys that are not hidden · " if "left" in lead else ""
    if missing:
        named = "; ".join(_named(column, unit) for column in reversed(missing))
        yield Text("\n".join(wrap(f"columns beyond this width, which --json has: {named}", screen.width)), DIM)
    means = legend + "means over all queries: " + ", ".join(column.caption for column in columns).format(unit=unit)
    yield Text("\n".join(wrap(means, screen.width, break_on_hyphens=False)), DIM)


def _named(column: Statistic, unit: str) -> str:
    return f"{column.heading}: {column.caption.removeprefix(f'{column.heading}: ').format(unit=unit)}"
