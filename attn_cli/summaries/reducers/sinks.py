"""The sinks of each head, by the weight that keys receive from all rows: see `attn_cli.summaries.sinks`."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attn_cli.call import Call
from attn_cli.kernel.stats.wanted import ColumnSums, RowStats, Wanted
from attn_cli.summaries.reduce import Part
from attn_cli.summaries.sight import sight_of
from attn_cli.summaries.sinks import Reception, SinkRows, expected_sinks


@dataclass(frozen=True, eq=False)
class HeadSinks(Part):
    """The mean weight on each key from the rows that may see it, and which keys each head rests on: its sinks.

    Rows that see fewer than 8 keys are left out, unless all do. A sink gets over 0.3 of the weight of the other rows
    that see it, in the mean, and over 3 times what uniform attention would give it.

    reception  the mean weight `[h, m]`, that of uniform attention `[m]`, and which keys are sinks, booleans `[h, m]`
    expected   the keys at which sinks are expected: the first of causal text, else special tokens
    """

    name: ClassVar[str] = "head_sinks"

    reception: Reception
    expected: tuple[int, ...] = ()

    def arrays(self) -> dict[str, np.ndarray]:
        """`reception` `[h, m]`, the mean weight on each of m keys from the rows that may see it; `is_sink` `[h, m]`."""
        return {"reception": self.reception.mean, "is_sink": self.reception.is_sink}


class HeadSinksReducer:
    """Makes `HeadSinks` of a call, from all its rows."""

    def wanted(self, call: Call) -> Wanted:
        """A request for the sums of weights by key over all rows, and over the rows that see fewer than 8 keys."""
        return Wanted(column_sums=(ColumnSums(), ColumnSums(_told_by(call).few_rows)))

    def part(self, call: Call, stats: RowStats) -> HeadSinks:
        """The mean weight on each key, and which keys are sinks of a head."""
        told_by = _told_by(call)
        return HeadSinks(
            told_by.reception(stats.column_sums[ColumnSums()], stats.column_sums[ColumnSums(told_by.few_rows)]),
            tuple(expected_sinks(call).tolist()),
        )


def _told_by(call: Call) -> SinkRows:
    return SinkRows.of(sight_of(call.rule.mask, call.n, call.m, call.like))
