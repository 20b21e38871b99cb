"""Which keys are sinks of which heads, by what they receive from all rows.

Rows that see fewer than 8 keys count only where there are no others; nor is a key judged by fewer than 8 rows where
others are seen by more. `attn_cli.summaries.sinks` says what a sink is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import to_numpy, zeros
from attn_cli.call import Call
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.row_numbers import RowNeeds, RowNumbers
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.visible import VisibleCells, visible_cells
from attn_cli.summaries.sinks import FEW_KEYS, is_sink

_FEW_ROWS = 8  # of a key


@dataclass(frozen=True, eq=False)
class HeadSinks(Part):
    """How much each key receives from the rows that may see it.

    reception  the mean of their weights on it `[h, m]`
    chance     what it would be if they gave the same to all keys that they may see `[m]`
    is_sink    whether the key is a sink of the head `[h, m]`
    """

    name: ClassVar[str] = "head_sinks"

    reception: np.ndarray
    chance: np.ndarray
    is_sink: np.ndarray

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per (head, sink)."""
        for at, key in np.argwhere(self.is_sink).tolist():
            yield {
                "layer": summary.place.layer,
                "head": summary.place.heads[at],
                "key": key,
                "key_token": summary.keys[key].text,
                "reception": float(self.reception[at, key]),
                "chance": float(self.chance[key]),
            }

    def arrays(self) -> dict[str, np.ndarray]:
        """`reception`, `is_sink` `[h, m]`."""
        return {"reception": self.reception, "is_sink": self.is_sink}


class SinksOfHeads:
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
        few = self.few[band.start : band.stop]
        self.sums[band.heads, band.first : band.last] += band.weights.sum(1)
        if few.any():
            rows = np.flatnonzero(few).tolist()
            self.few_sums[band.heads, band.first : band.last] += band.weights[:, rows].sum(1)

    def row_needs(self, call: Call) -> RowNeeds | None:
        """The column sums, and those of the rows that see few keys."""
        self._begin(call)
        return RowNeeds(received=True, few=FEW_KEYS if self.few.any() else 0)

    def take(self, rows: RowNumbers) -> None:
        """The column sums."""
        assert rows.received is not None
        self.sums = rows.received
        self.few_sums = np.zeros_like(rows.received) if rows.received_few is None else rows.received_few

    def result(self) -> HeadSinks:
        """The means, and which of them make a sink."""
        sums = to_numpy(self.sums).astype(np.float64) - to_numpy(self.few_sums).astype(np.float64)
        seen_by = np.maximum(self.visible.of_keys, 1)
        reception, chance = sums / seen_by, self.visible.chance / seen_by
        return HeadSinks(reception, chance, is_sink(reception, chance) & self._is_judged)

    def _begin(self, call: Call) -> None:
        """Which rows see few keys, and what the others see."""
        every = visible_cells(call.rule.mask, range(call.n), call.m, call.like)
        few = every.of_rows < FEW_KEYS
        self.few = few if not few.all() else np.zeros_like(few)
        rows = np.flatnonzero(~self.few).tolist()
        self.visible: VisibleCells = visible_cells(call.rule.mask, rows, call.m, call.like)

    @property
    def _is_judged(self) -> np.ndarray:
        """Which keys enough rows see `[m]`."""
        return self.visible.of_keys >= min(_FEW_ROWS, self.visible.of_keys.max(initial=0))
