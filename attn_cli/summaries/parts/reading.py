"""The attention of some rows of a text to each of its keys, and the text's sinks."""

from collections.abc import Sequence

import numpy as np

from attn_cli.call import Call
from attn_cli.kernel.stats.wanted import ColumnSums, Wanted
from attn_cli.summaries.sight import sight_of
from attn_cli.summaries.sinks import SinkRows, expected_sinks
from attn_cli.summaries.text_sinks import sinks_by_heads


class TextReading:
    """Adds up, over attention calls, what the ascending query rows `rows` of a text give to its m keys."""

    def __init__(self, rows: Sequence[int], m: int) -> None:
        self.rows = tuple(rows)
        self.heads, self.has_learned_sink = 0, False
        self.received, self.sink_heads = np.zeros((2, m))
        self.expected: set[int] = set()

    def add(self, call: Call) -> None:
        """Take in one attention call whose keys are the text's tokens."""
        rows, sink_rows = ColumnSums(self.rows), SinkRows(sight_of(call.rule.mask, call.n, call.m, call.like))
        stats = call.row_stats(Wanted(column_sums=(rows, ColumnSums(), sink_rows.left_out)))
        _, is_sink = sink_rows.reception(stats.column_sums[ColumnSums()], stats.column_sums[sink_rows.left_out])
        self.heads += call.h
        self.received += stats.column_sums[rows].sum(axis=0) / max(1, len(self.rows))
        self.sink_heads += is_sink.sum(axis=0)
        self.expected.update(expected_sinks(call).tolist())
        self.has_learned_sink |= bool(call.rule.describe()["sink"])

    def sinks(self, queries: int) -> list[int]:
        """The sinks of the text, those with most weight first."""
        found = {*sinks_by_heads(self.sink_heads, self.heads, queries, self.expected).tolist(), *self.expected}
        return sorted(found, key=lambda key: -self.received[key])

    @property
    def learned_sink(self) -> float:
        """The mean weight that the rows give to a learned sink; 0 without one."""
        return max(0.0, 1 - float(self.received.sum()) / self.heads) if self.has_learned_sink else 0.0
