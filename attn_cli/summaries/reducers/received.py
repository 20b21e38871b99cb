"""How much attention each key receives: column sums of the weights."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import to_numpy, zeros
from attn_cli.call import Call
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.row_numbers import RowNeeds, RowNumbers
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.picked_rows import RowPlaces


@dataclass(frozen=True, eq=False)
class Received(Part):
    """The share of all attention that each key receives, `[h, m]`: column sums over n queries, divided by n.

    Every head's shares add to 1, less a learned sink's part and masked rows. Under a causal mask early keys are seen
    by more queries and so receive more.
    """

    name: ClassVar[str] = "received"
    together: ClassVar[bool] = True

    shares: np.ndarray

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per (head, key)."""
        for at, head in enumerate(summary.place.heads):
            for key, token in enumerate(summary.keys):
                yield {
                    "layer": summary.place.layer,
                    "head": head,
                    "key": key,
                    "key_token": token.text,
                    "received_share": float(self.shares[at, key]),
                }

    def arrays(self) -> dict[str, np.ndarray]:
        """`received_share` `[h, m]`."""
        return {"received_share": self.shares}


class ReceivedShares:
    """Collects `Received` from all queries or from `rows`."""

    needs_scores = False
    whole_heads = False

    def __init__(self, rows: Sequence[int] | None = None) -> None:
        self.rows = rows

    def start(self, call: Call) -> None:
        """One number per head and key."""
        self.places = RowPlaces(self.rows, call.n)
        self.sums = zeros((call.h, call.m), call.like)
        self.ones = zeros((call.h, 1, call.n), call.like) + 1

    def add(self, band: Band) -> None:
        """Add the column sums of the band's picked rows."""
        fit = self.places.of(band)
        if fit is None:
            return
        weights = band.weights[:, fit.inside, :]
        ones = self.ones[band.heads, :, : weights.shape[1]]  # a product: several times faster than a sum across rows
        self.sums[band.heads, band.first : band.last] += (ones @ weights)[:, 0, :]

    def row_needs(self, call: Call) -> RowNeeds | None:
        """The column sums, of all rows."""
        self.places = RowPlaces(self.rows, call.n)
        return RowNeeds(received=True) if self.rows is None else None

    def take(self, rows: RowNumbers) -> None:
        """The column sums."""
        self.sums = rows.received

    def result(self) -> Received:
        """Column sums over the number of rows."""
        return Received(to_numpy(self.sums).astype(np.float64) / max(1, len(self.places)))
