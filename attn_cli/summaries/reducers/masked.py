"""Masked rows: queries that may attend to nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import namespace, to_numpy
from attn_cli.call import Call
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.row_numbers import RowNeeds, RowNumbers
from attn_cli.summaries.reduce import Part, Summary


@dataclass(frozen=True, eq=False)
class Masked(Part):
    """The number of rows of every head whose weights are all 0, `[h]`; their output is 0 too."""

    name: ClassVar[str] = "masked"

    rows: np.ndarray

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head."""
        for head, count in zip(summary.place.heads, self.rows.tolist(), strict=True):
            yield {"layer": summary.place.layer, "head": head, "masked_rows": count}

    def arrays(self) -> dict[str, np.ndarray]:
        """`masked_rows`."""
        return {"masked_rows": self.rows}


class MaskedRows:
    """Collects `Masked` while the bands pass."""

    needs_scores = False
    whole_heads = False
    rows: Sequence[int] | None = None

    def start(self, call: Call) -> None:
        """One count per head."""
        self.counts = np.zeros(call.h, dtype=np.int64)

    def add(self, band: Band) -> None:
        """Count the band's rows."""
        xp = namespace(band.weights)
        if band.first == band.last:
            self.counts[band.heads] += band.stop - band.start
            return
        dead = xp.max(band.weights, axis=-1) == 0
        self.counts[band.heads] += to_numpy(xp.sum(xp.astype(dead, xp.int64), axis=-1))

    def row_needs(self, call: Call) -> RowNeeds | None:
        """The moments, of which the largest score says whether there is any."""
        return RowNeeds(moments=True)

    def take(self, rows: RowNumbers) -> None:
        """Count rows without a score."""
        assert rows.maximum is not None
        self.counts = np.isneginf(rows.maximum).sum(axis=-1)

    def result(self) -> Masked:
        """The counts."""
        return Masked(self.counts)
