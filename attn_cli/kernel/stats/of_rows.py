"""Statistics of single rows, gathered band by band: moments, sums over key sets, the largest cells."""

from collections.abc import Sequence

import numpy as np

from attn_cli.arrays import (
    from_numpy,
    indices,
    integers,
    namespace,
    row_dot,
    take_along_last_axis,
    to_numpy,
    zeros,
)
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.masked_cells import logarithms, with_infinities
from attn_cli.kernel.bands.picked_rows import RowIndex
from attn_cli.kernel.stats.banded import Banded
from attn_cli.kernel.stats.topk import heaviest
from attn_cli.kernel.stats.wanted import RankedKeys, TopK


class RowMoments:
    """Largest score, log-sum-exp, sum of weights, entropy and distance of each row, gathered band by band.

    A band is the weights of some adjacent rows. No exponential or logarithm is taken of a cell: the log-sum-exp follows
    from the largest score and its weight, and -log weight = logsumexp - score, so that the entropy takes one dot
    product.
    """

    def __init__(self, call: Banded, rows: int, names: Sequence[str]) -> None:
        self.call, self.names = call, names
        self.has_scores = bool({"maximum", "logsumexp", "entropy_nats"} & {*names})
        self.largest, self.weight_sum, self.mean_score, self.distance, self.hidden = (
            zeros((call.h, rows), call.like) for _ in range(5)
        )
        self.maximum = self.largest - float("inf")
        self.hides = False

    def add(self, band: Band, inside: RowIndex, kept: RowIndex) -> None:
        """Take in rows of a band (weights of some adjacent rows)."""
        weights, xp, heads = band.weights[:, inside], namespace(band.weights), band.heads
        self.largest[heads, kept] = xp.max(weights, axis=-1)
        self.weight_sum[heads, kept] = xp.sum(weights, axis=-1)
        if self.has_scores:
            scores = logarithms(weights) if band.raw_scores is None else band.raw_scores[:, inside]
            self.maximum[heads, kept] = with_infinities(xp.max(scores, axis=-1))
            self.mean_score[heads, kept] = row_dot(weights, scores)
        if "distance" in self.names:
            i = indices(band.start, band.stop, weights)[inside] + (self.call.m - self.call.n)
            far = xp.abs(i[:, None] - indices(band.first, band.last, weights)[None, :])  # [b, c]
            self.distance[heads, kept] = row_dot(weights, xp.astype(far, weights.dtype)[None])
        if band.hidden is not None:
            self.hides = True
            self.hidden[heads, kept] = band.hidden[:, inside]

    def result(self) -> dict[str, np.ndarray]:
        """What was asked for by its name in `RowNumbers`, such as entropy_nats: `[h, R]` each in float64."""
        largest, maximum, total, mean_score, distance, hidden = (
            to_numpy(x).astype(np.float64)
            for x in (self.largest, self.maximum, self.weight_sum, self.mean_score, self.distance, self.hidden)
        )
        # A sink that leaves no key any weight is all there is in the sum.
        sink = -np.inf if self.call.rule.sink is None else to_numpy(self.call.rule.sink).astype(np.float64)[:, None]
        some = (largest > 0) | np.isnan(largest)
        logarithm = np.log(largest, out=np.zeros_like(largest), where=some)
        logsumexp = np.subtract(maximum, logarithm, out=np.zeros_like(largest), where=some)
        moments = {
            "masked": largest == 0,
            "maximum": maximum,
            "logsumexp": np.where(some, logsumexp, sink),
            "weight_sum": total,
            "entropy_nats": total * logsumexp - np.where(some, mean_score, 0.0) if self.has_scores else total,
            "distance": distance,
        }
        hides = {"hidden": hidden} if self.hides else {}
        return {name: moments[name] for name in self.names} | hides


class KeySums:
    """For each row the sum of its weights on each of some sets of keys, `[h, rows, sets]`, gathered band by band.

    A band is the weights of some adjacent rows.

    key_sets  for each set the keys of all n rows `[n, c]`; -1 for none
    """

    def __init__(self, call: Banded, rows: int, key_sets: Sequence[np.ndarray]) -> None:
        self.columns = np.concatenate(key_sets, axis=1)
        self.starts = np.cumsum([0, *(keys.shape[1] for keys in key_sets)])[:-1]
        self.sums = zeros((call.h, rows, len(key_sets)), call.like)

    def add(self, band: Band, inside: RowIndex, kept: RowIndex) -> None:
        """Take in rows of a band (weights of some adjacent rows)."""
        weights = band.weights[:, inside]
        at = self.columns[band.start : band.stop][inside] - band.first  # [b, c]
        seen = (at >= 0) & (at < band.last - band.first)
        cells = to_numpy(weights[:, np.arange(len(at))[:, None], np.where(seen, at, 0)]) * seen
        self.sums[band.heads, kept] = from_numpy(np.add.reduceat(cells, self.starts, axis=2), weights)


class RankedRows:
    """The keys of largest weight of every row, gathered band by band, a band being some adjacent rows.

    Where the request `top` says so, those of largest share of the row's output: weight times the norm of the value,
    over the sum of these in the row.
    """

    def __init__(self, call: Banded, rows: int, top: TopK) -> None:
        self.top = top
        shape = (1 if top.mean_heads else call.h, rows, min(top.count, call.m))
        self.weights, self.keys = zeros(shape, call.like), integers(shape, -1, call.like)
        self.scores = zeros(shape, call.like) - float("inf") if top.scores and call.shows_scores else None
        self.measures = None if top.by == "weight" else zeros(shape, call.like)

    def add(self, band: Band, inside: RowIndex, kept: RowIndex) -> None:
        """Rank the keys of some of a band's adjacent rows, and store at most `top.count` a row."""
        together = self.top.mean_heads
        heads = slice(None) if together else band.heads
        weights = band.measured("weight", together=together)[:, inside]
        measured = weights if self.measures is None else band.measured(self.top.by, together=together)[:, inside]
        values, places = heaviest(measured, min(self.top.count, band.last - band.first))
        k = places.shape[-1]
        if self.measures is not None:
            self.measures[heads, kept, :k] = values
            values = take_along_last_axis(weights, places)
        self.weights[heads, kept, :k], self.keys[heads, kept, :k] = values, places + band.first
        if self.scores is not None:
            scores = band.raw_scores[:, inside]  # type: ignore[index]
            scores = with_infinities(scores).mean(0)[None] if together else scores
            self.scores[heads, kept, :k] = with_infinities(take_along_last_axis(scores, places))

    def result(self) -> RankedKeys:
        """The ranked keys of every row with weights and scores, `[h, rows, count]`, in NumPy; key -1 for none."""
        weights, keys, scores, measures = (
            None if x is None else to_numpy(x) for x in (self.weights, self.keys, self.scores, self.measures)
        )
        keys[(weights == 0) & (True if scores is None else np.isneginf(scores))] = -1  # type: ignore[index]
        return RankedKeys(weights, scores, keys, measures)
