"""What each head does, in a handful of numbers: how spread, how far, and how much goes to well-known places."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import Array, indices, namespace, row_dot, to_numpy, zeros
from attn_cli.call import Call
from attn_cli.kernel.bands import Band
from attn_cli.summaries.reduce import Summary

COLUMNS = ("entropy_bits", "distance", "first_weight", "previous_weight", "self_weight", "sink_weight")
_BITS_PER_NAT = float(1 / np.log(2))


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
    """Collects `Heads`: a few sums per head while the bands pass.

    The entropy of a row is the mean of -log w, and -log w = log_sum - score, so it takes no logarithm per cell:
    the row's log_sum follows from its largest score and weight, the mean score is one dot product.
    """

    needs_scores = True
    rows: Sequence[int] | None = None

    def start(self, call: Call) -> None:
        """One number per head and statistic."""
        self.n = call.n
        self.square = call.place.stream != "cross"
        self.offset = call.m - self.n  # with a cache of past keys, query 0 stands at key m - n
        self.has_sink = call.rule.sink is not None
        self.sums = {name: zeros((call.h,), call.like) for name in (*COLUMNS, "masked_rows")}
        self.positions = zeros((call.m,), call.like) + indices(0, call.m, call.like)

    def add(self, band: Band) -> None:
        """Add the band's rows to the sums."""
        if band.first == band.last:
            self.sums["masked_rows"] += band.stop - band.start
            return
        xp = namespace(band.weights)
        weights = band.weights
        heaviest = xp.max(weights, axis=-1)
        live = xp.astype(heaviest > 0, weights.dtype)
        sums = self.sums
        sums["masked_rows"] += xp.sum(1 - live, axis=-1)
        totals = xp.sum(weights, axis=-1) if self.has_sink else live
        log_sum = xp.max(band.raw_scores, axis=-1) - xp.log(heaviest + (1 - live))  # of a dead row: any finite number
        nats = totals * log_sum - row_dot(weights, band.raw_scores)
        if self.has_sink:
            left = live - totals  # a row that may attend to nothing is in no mean, the sink's neither
            nats = nats - left * xp.log(xp.where(left > 0, left, 0 * left + 1))
            sums["sink_weight"] += xp.sum(left, axis=-1)
        # Two large numbers are subtracted: a row on one key may come out a rounding error below 0.
        sums["entropy_bits"] += xp.sum(xp.where(nats > 0, nats, 0 * nats), axis=-1) * _BITS_PER_NAT
        if band.first == 0:
            sums["first_weight"] += xp.sum(weights[:, :, 0], axis=-1)
        if self.square:
            sums["distance"] += self._distance(band, totals)
            for name, back in (("self_weight", 0), ("previous_weight", 1)):
                sums[name] += self._diagonal(band, back)

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

    def _distance(self, band: Band, totals: Array) -> Array:
        """The sum `[h]` of weight times |i - j|: keys before and after the band by a product."""
        xp = namespace(band.weights)
        i = self._own_keys(band)
        before, after = min(max(i[0], band.first), band.last), min(max(i[1], band.first), band.last)
        rows = self.positions[: band.stop - band.start] + i[0]  # where the queries stand among the keys
        found = zeros((band.weights.shape[0],), band.weights)
        for left, right, sign in ((band.first, before, 1), (after, band.last, -1)):
            if right > left:
                part = band.weights[:, :, left - band.first : right - band.first]
                mass = xp.sum(part, axis=-1) if sign < 0 or right < band.last else totals
                found = found + sign * xp.sum(mass * rows - part @ self.positions[left:right], axis=-1)
        if after > before:
            part = band.weights[:, :, before - band.first : after - band.first]
            gaps = abs(rows[:, None] - self.positions[None, before:after])
            found = found + xp.sum(part * gaps, axis=(-2, -1))
        return found

    def _own_keys(self, band: Band) -> tuple[int, int]:
        """The keys that stand where the band's queries stand."""
        return band.start + self.offset, band.stop + self.offset

    def _diagonal(self, band: Band, back: int) -> Array:
        """The sum `[h]` of the weights on the keys `back` places before their query."""
        first_row = max(band.start, band.first + back - self.offset)
        last_row = min(band.stop, band.last + back - self.offset)
        if first_row >= last_row:
            return 0.0
        xp = namespace(band.weights)
        rows = band.weights[:, first_row - band.start : last_row - band.start, :]
        keys = rows[:, :, first_row + self.offset - back - band.first : last_row + self.offset - back - band.first]
        return xp.sum(xp.linalg.diagonal(keys), axis=-1)
