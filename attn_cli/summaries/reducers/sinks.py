"""Which keys are sinks of which heads, by what they receive from all rows: see `attn_cli.summaries.sinks`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import to_numpy, zeros
from attn_cli.call import Call
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.row_numbers import RowNeeds, RowNumbers
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.sight import sight_of
from attn_cli.summaries.sinks import FEW_KEYS, Reception, SinkRows


@dataclass(frozen=True, eq=False)
class HeadSinks(Part):
    """How much each key receives from the rows that may see it, and of which heads it is a sink."""

    name: ClassVar[str] = "head_sinks"

    reception: Reception

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per (head, sink)."""
        for at, key in np.argwhere(self.reception.is_sink).tolist():
            yield {
                "layer": summary.place.layer,
                "head": summary.place.heads[at],
                "key": key,
                "key_token": summary.keys[key].text,
                "reception": float(self.reception.mean[at, key]),
                "baseline": float(self.reception.uniform[key]),
            }

    def arrays(self) -> dict[str, np.ndarray]:
        """`reception`, `is_sink` `[h, m]`."""
        return {"reception": self.reception.mean, "is_sink": self.reception.is_sink}


class HeadSinksReducer:
    """Collects `HeadSinks` from all rows."""

    needs_scores = False
    whole_heads = False
    rows: Sequence[int] | None = None

    def start(self, call: Call) -> None:
        """Two numbers per head and key: of all rows, and of those that see few keys."""
        self._begin(call)
        self.sums, self.few_sums = zeros((call.h, call.m), call.like), zeros((call.h, call.m), call.like)

    def add(self, band: Band) -> None:
        """Add the band's column sums."""
        few = self.told_by.few[band.start : band.stop]
        self.sums[band.heads, band.first : band.last] += band.weights.sum(1)
        if few.any():
            rows = np.flatnonzero(few).tolist()
            self.few_sums[band.heads, band.first : band.last] += band.weights[:, rows].sum(1)

    def row_needs(self, call: Call) -> RowNeeds | None:
        """The column sums, and those of the rows that see few keys."""
        self._begin(call)
        return RowNeeds(received=True, few=FEW_KEYS if self.told_by.few.any() else 0)

    def take(self, rows: RowNumbers) -> None:
        """The column sums."""
        assert rows.received is not None
        self.sums = rows.received
        self.few_sums = np.zeros_like(rows.received) if rows.received_few is None else rows.received_few

    def result(self) -> HeadSinks:
        """The means, and which of them make a sink."""
        sums, few_sums = (to_numpy(x).astype(np.float64) for x in (self.sums, self.few_sums))
        return HeadSinks(self.told_by.reception(sums, few_sums))

    def _begin(self, call: Call) -> None:
        self.told_by = SinkRows.of(sight_of(call.rule.mask, call.n, call.m, call.like))
