"""Per-head statistics as a table: a line per head, a column per statistic."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.heads import STATISTICS, Heads
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.report import Ranking, Report
from attn_cli.summaries.standing_out import any_judged, finding
from attn_cli.text import counted
from attn_cli.views.drawing.cells import BOLD, DIM, packed_text
from attn_cli.views.drawing.labels import head_name
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.table import table_lines
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import matrix_of_head

_MANY_HEADS, _SHARPEST = 24, 8  # an overview with more heads shows only so many of the sharpest
_RESTING = 0.9  # of a head's weight on the first token, a sink


class HeadRow(NamedTuple):
    """One head's line in a table: its layer, its index there, and its statistics by name, NaN for none."""

    summary: Summary
    at: int
    numbers: dict[str, float]


def draw(heads: Heads, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """A table of the statistics of all heads of all layers, in the order that was asked for."""
    rows, ranking = head_rows(report.summaries), report.ranking
    masked = sum(int(part.masked_rows.max(initial=0)) for _, part in report.parts_of(Heads))
    if is_abridged(report) and any_judged(report.summaries):
        return
    yield ""
    if is_abridged(report):
        yield packed_text(
            [f"the {_SHARPEST} most focused of {len(rows)} heads", finding(report.summaries)], screen, BOLD
        )
        rows = sharpest(rows, _SHARPEST)
    if ranking is not None:
        yield Text(_ranking_title(rows, ranking), BOLD)
        rows = _ranked(rows, ranking)
    left_out = "max_score" if report.command == "inspect" else ""
    of_rows = {each: np.array([row.numbers[each.name] for row in rows]) for each in STATISTICS}
    names = [each.name for each, x in of_rows.items() if not each.says_nothing(x) and each.name != left_out]
    names = [ranking.column, *(name for name in names if name != ranking.column)] if ranking else names
    labels = [f"{row.summary.place.stream} {head_name(row.summary, row.at)}".removeprefix("self ") for row in rows]
    yield from table_lines([row.numbers for row in rows], labels, ("visible_weight", *names), screen, title="head")
    yield packed_text(
        [f"means over all {'queries' if report.unit == 'token' else 'words'}", "attn guide numbers"], screen, DIM
    )
    if masked:
        yield Text(f"{masked} rows are fully masked: left out of the means", DIM)


def is_abridged(report: Report) -> bool:
    """True for an overview of more than 24 heads, which shows no line for each."""
    return report.is_overview and len(head_rows(report.summaries)) > _MANY_HEADS


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the matrix of the first head as sorted, else of the most pointed one."""
    rows = head_rows(report.summaries)
    rows = sharpest(rows, 1) if report.ranking is None else _ranked(rows, report.ranking)
    return matrix_of_head(rows[0].summary, rows[0].at, report, invocation) if rows else None


def with_resting_told(report: Report) -> Report:
    """The report with a note where the first heads by entropy give all to the first token."""
    assert report.ranking is not None
    first = [row.numbers["first_weight"] for row in _ranked(head_rows(report.summaries), report.ranking)[:_SHARPEST]]
    if report.ranking.column != "entropy_bits" or min(first, default=0) < _RESTING:
        return report
    note = f"the first {len(first)} heads rest on the first token: without --sort a screen lists those that don't"
    return replace(report, warnings=(*report.warnings, note))


def _ranked(rows: Sequence[HeadRow], ranking: Ranking) -> list[HeadRow]:
    return ranking.of(rows, lambda row: row.numbers[ranking.column])


def _ranking_title(rows: Sequence[HeadRow], ranking: Ranking) -> str:
    statistic = next(each for each in STATISTICS if each.name == ranking.column)
    if missing := statistic.missing(np.array([row.numbers[ranking.column] for row in rows])):
        return missing
    shown = len(rows) if ranking.count is None else min(len(rows), ranking.count)
    some = f"{shown} of {len(rows)} heads" if shown < len(rows) else counted(len(rows), "head")
    return f"{some} {ranking.words}"


def head_rows(summaries: Sequence[Summary]) -> list[HeadRow]:
    """The heads of all layers that have statistics, a row each."""
    return [
        HeadRow(summary, at, {name: float(values[at]) for name, values in heads.arrays().items()})
        for summary, heads in with_part(summaries, Heads)
        for at in range(len(summary.place.heads))
    ]


def sharpest(rows: Sequence[HeadRow], count: int) -> list[HeadRow]:
    """The `count` heads that give most to one key that is no sink, most first."""

    def order(row: HeadRow) -> float:
        kinds = row.summary.part(HeadKinds)
        if kinds is None:
            return row.numbers["entropy_bits"]
        return -float(kinds.peaks.weight[row.at] * kinds.peaks.share[row.at])

    return sorted(rows, key=order)[:count]
