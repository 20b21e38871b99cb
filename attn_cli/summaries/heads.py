"""What each head does, in a handful of numbers: how spread, how far, and how much goes to well-known places."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import Array, indices, is_torch, namespace, to_numpy, zeros
from attn_cli.call import Call
from attn_cli.kernel.bands import Band
from attn_cli.summaries.reduce import Summary

COLUMNS = ("entropy_bits", "distance", "first_weight", "previous_weight", "self_weight", "sink_weight")
_BITS_PER_NAT = 1 / np.log(2)


@dataclass(frozen=True, eq=False)
class Heads:
    """Means over queries, one number per head `[h]`; rows that may attend to nothing are counted and left out.

    entropy_bits     entropy of the weights of a row: 0 for one key, log2 m for uniform (a learned sink counts as a key)
    distance         how many tokens away the attended keys are, weighted; NaN where queries and keys differ
    first_weight     weight on key 0, where attention sinks usually are
    previous_weight  weight on the token before the query; NaN where queries and keys differ
    self_weight      weight on the query itself; NaN where queries and keys differ
    sink_weight      weight on the learned sink: 1 - row sum; 0 for models without one
    masked_rows      the number of rows that may attend to nothing, a plain count
    """

    name: ClassVar[str] = "heads"

    entropy_bits: np.ndarray
    distance: np.ndarray
    first_weight: np.ndarray
    previous_weight: np.ndarray
    self_weight: np.ndarray
    sink_weight: np.ndarray
    masked_rows: np.ndarray

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head."""
        place = summary.place
        for at, (head, group) in enumerate(zip(place.heads, place.groups, strict=True)):
            numbers = {name: float(getattr(self, name)[at]) for name in COLUMNS}
            row = {"layer": place.layer, "head": head, "kv_head": group}
            yield row | numbers | {"masked_rows": int(self.masked_rows[at])}

    def documents(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """The same rows."""
        return self.records(summary)

    def arrays(self) -> dict[str, np.ndarray]:
        """Every number by its name, `[h]`."""
        return {name: getattr(self, name) for name in (*COLUMNS, "masked_rows")}


class HeadStatistics:
    """Collects `Heads`: a few sums per head while the bands pass."""

    needs_scores = False
    rows: Sequence[int] | None = None

    def start(self, call: Call) -> None:
        """One number per head and statistic."""
        self.n = call.n
        self.square = call.place.stream != "cross"
        self.offset = call.m - self.n  # with a cache of past keys, query 0 stands at key m - n
        self.has_sink = call.rule.sink is not None
        self.sums = {name: zeros((call.h,), call.like) for name in (*COLUMNS, "masked_rows")}

    def add(self, band: Band) -> None:
        """Add the band's rows to the sums."""
        weights = band.weights
        xp = namespace(weights)
        totals = xp.sum(weights, axis=-1)
        sums = self.sums
        sums["masked_rows"] = sums["masked_rows"] + xp.sum(xp.astype(totals == 0, weights.dtype), axis=-1)
        entropy = xp.sum(_entropy_terms(weights), axis=-1)
        if self.has_sink:
            left = 1 - totals
            entropy = entropy + _entropy_terms(left)
            sums["sink_weight"] = sums["sink_weight"] + xp.sum(left, axis=-1)
        sums["entropy_bits"] = sums["entropy_bits"] + xp.sum(entropy, axis=-1)
        if band.first == 0 and band.last > 0:
            sums["first_weight"] = sums["first_weight"] + xp.sum(weights[:, :, 0], axis=-1)
        if self.square:
            i = indices(band.start, band.stop, weights)[:, None] + self.offset
            j = indices(band.first, band.last, weights)[None, :]
            gap = xp.astype(abs(i - j), weights.dtype)
            sums["distance"] = sums["distance"] + xp.sum(weights * gap, axis=(-2, -1))
            for name, back in (("self_weight", 0), ("previous_weight", 1)):
                sums[name] = sums[name] + self._diagonal(band, back)

    def result(self) -> Heads:
        """Means over the rows that may attend to something."""
        sums = {name: to_numpy(total).astype(np.float64) for name, total in self.sums.items()}
        masked = sums.pop("masked_rows")
        live = np.maximum(self.n - masked, 1)
        means = {name: total / live for name, total in sums.items()}
        if not self.square:
            for name in ("distance", "previous_weight", "self_weight"):
                means[name] = np.full_like(live, np.nan)
        return Heads(**means, masked_rows=masked.astype(np.int64))

    def _diagonal(self, band: Band, back: int) -> Array:
        """The sum `[h]` of the weights on the keys `back` places before their query."""
        first_row = max(band.start, band.first + back - self.offset)
        last_row = min(band.stop, band.last + back - self.offset)
        xp = namespace(band.weights)
        if first_row >= last_row:
            return 0.0
        rows = band.weights[:, first_row - band.start : last_row - band.start, :]
        keys = rows[:, :, first_row + self.offset - back - band.first : last_row + self.offset - back - band.first]
        return xp.sum(xp.linalg.diagonal(keys), axis=-1)


def _entropy_terms(weights: Array) -> Array:
    """-w log2 w, and 0 for weight 0."""
    xp = namespace(weights)
    if is_torch(weights):  # one fused pass instead of four
        return xp.special.entr(weights) * _BITS_PER_NAT
    return -weights * xp.log2(xp.where(weights > 0, weights, xp.ones_like(weights)))
