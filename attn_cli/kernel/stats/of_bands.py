"""Row statistics gathered while a call's bands pass: the definition of everything in `Wanted`."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from attn_cli.arrays import (
    Array,
    from_numpy,
    indices,
    integers,
    is_torch,
    namespace,
    row_dot,
    take_along_last_axis,
    to_numpy,
    zeros,
)
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.blocks import folded
from attn_cli.kernel.bands.masked_cells import logarithms, with_infinities
from attn_cli.kernel.bands.picked_rows import RowIndex, RowPlaces
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.definition.softmax import renormalised
from attn_cli.kernel.stats.topk import heaviest
from attn_cli.kernel.stats.wanted import ColumnSums, Pool, RankedKeys, RowStats, TopK, Wanted


class Banded(Protocol):
    """A call of h heads, n queries and m keys, as far as its row statistics need it."""

    @property
    def h(self) -> int:
        """The number of query heads."""

    @property
    def n(self) -> int:
        """The number of queries."""

    @property
    def m(self) -> int:
        """The number of keys."""

    @property
    def rule(self) -> Rule:
        """How scores become weights."""

    @property
    def like(self) -> Array:
        """An array of the right library, device and precision."""

    @property
    def shows_scores(self) -> bool:
        """Whether bands can carry scores."""

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The attention, a few rows at a time, ascending."""


def stats_of_bands(call: Banded, wanted: Wanted) -> RowStats:
    """The row statistics of a call from one pass over its bands."""
    stats = BandStats(call, wanted)
    for band in call.bands(rows=stats.rows, want_scores=stats.needs_scores, in_parts=not stats.whole_heads):
        stats.add(band)
    return stats.result()


class BandStats:
    """Row statistics that grow band by band.

    rows, needs_scores, whole_heads  which bands it must be shown: of those rows, with scores, of all heads
    """

    def __init__(self, call: Banded, wanted: Wanted) -> None:
        self.call, self.wanted, self.rows = call, wanted, wanted.walked_rows
        self.needs_scores = call.shows_scores and bool(
            {"maximum", "logsumexp", "entropy_nats"} & {*wanted.moments}
            or any(x.scores for x in wanted.tops)
            or any(x.of == "scores" for x in wanted.pools)
        )
        of_all_heads = [x.mean_heads for x in wanted.tops] + [x.mean_heads for x in wanted.pools]
        self.whole_heads = any(of_all_heads) or any(x.joint for x in wanted.column_sums)
        self.places = RowPlaces(wanted.rows, call.n)
        if wanted.moments:
            self.moments = _Moments(call, len(self.places), wanted.moments)
        if wanted.key_sets:
            self.keys = _KeySums(call, len(self.places), wanted.key_sets)
        self.vectors = [self._of_rows() for _ in wanted.vectors]
        self.bins = [self._of_rows(len(edges) - 1) for edges in wanted.distance_edges]
        if wanted.seen:
            count = len(self.places)
            self.seen = np.full(count, call.m, np.int32), np.zeros(count, np.int32)
        self.tops = {top: _RankedRows(call, len(self.places), top) for top in wanted.tops}
        self.columns = {each: _Columns(call, each) for each in wanted.column_sums}
        self.pools = {pool: _Blocks(call, pool) for pool in wanted.pools}

    def _of_rows(self, *last: int) -> Array:
        return zeros((self.call.h, len(self.places), *last), self.call.like)

    def add(self, band: Band) -> None:
        """Take in a few rows; may be given rows that nothing is wanted of."""
        if band.first == band.last:
            return
        for parts in (self.columns, self.pools):
            for part in parts.values():
                part.add(band)
        fit = self.places.of(band)
        if fit is None:
            return
        if self.wanted.moments:
            self.moments.add(band, fit.inside, fit.kept)
        if self.wanted.key_sets:
            self.keys.add(band, fit.inside, fit.kept)
        if self.vectors or self.bins:
            weights = band.weights[:, fit.inside]
            for out, vector in zip(self.vectors, self.wanted.vectors, strict=True):
                out[band.heads, fit.kept] = weights @ from_numpy(vector[band.first : band.last], weights)
            ahead = np.arange(band.first, band.last) - self._own_places(band)[fit.inside, None]  # [b, c]
            for out, edges in zip(self.bins, self.wanted.distance_edges, strict=True):
                for at, (begin, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
                    inside = from_numpy(((ahead >= begin) & (ahead < end)).astype(np.float32), weights)
                    out[band.heads, fit.kept, at] = row_dot(weights, inside[None])
        if self.wanted.seen:
            some = to_numpy(namespace(band.weights).any(band.weights[:, fit.inside] > 0, axis=0))  # [b, c]
            first, last = (x[fit.kept] for x in self.seen)
            live, end = some.any(axis=1), band.last - some[:, ::-1].argmax(axis=1)
            self.seen[0][fit.kept] = np.minimum(first, np.where(live, band.first + some.argmax(axis=1), first))
            self.seen[1][fit.kept] = np.maximum(last, np.where(live, end, last))
        for ranking in self.tops.values():
            ranking.add(band, fit.inside, fit.kept)

    def _own_places(self, band: Band) -> np.ndarray:
        """The key places at which the band's queries stand `[b]`."""
        return np.arange(band.start, band.stop) + (self.call.m - self.call.n)

    def result(self) -> RowStats:
        """All that is wanted, in NumPy."""
        return RowStats(
            self.wanted,
            **(self.moments.result() if self.wanted.moments else {}),
            key_sums=to_numpy(self.keys.sums) if self.wanted.key_sets else None,
            vector_sums=np.stack([*map(to_numpy, self.vectors)], axis=-1) if self.vectors else None,
            distance_sums=tuple(map(to_numpy, self.bins)),
            seen=self.seen if self.wanted.seen else None,
            tops={top: ranking.result() for top, ranking in self.tops.items()},
            column_sums={each: columns.result() for each, columns in self.columns.items()},
            pooled={pool: blocks.result() for pool, blocks in self.pools.items()},
        )


class _Moments:
    """Maxima and sums over the keys of each row.

    No exponential or logarithm is taken of a cell: the log-sum-exp follows from the largest score and its weight, and
    -log weight = logsumexp - score, so that the entropy takes one dot product.
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
        """Note the rows `inside` the band, which are `kept` there."""
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
        """The moments by their names."""
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


class _KeySums:
    """Sums over key sets: all their columns are gathered at once, and added up set by set."""

    def __init__(self, call: Banded, rows: int, key_sets: Sequence[np.ndarray]) -> None:
        self.columns = np.concatenate(key_sets, axis=1)
        self.starts = np.cumsum([0, *(keys.shape[1] for keys in key_sets)])[:-1]
        self.sums = zeros((call.h, rows, len(key_sets)), call.like)

    def add(self, band: Band, inside: RowIndex, kept: RowIndex) -> None:
        """Add up the cells of the rows `inside` the band."""
        weights = band.weights[:, inside]
        at = self.columns[band.start : band.stop][inside] - band.first  # [b, c]
        seen = (at >= 0) & (at < band.last - band.first)
        cells = to_numpy(weights[:, np.arange(len(at))[:, None], np.where(seen, at, 0)]) * seen
        self.sums[band.heads, kept] = from_numpy(np.add.reduceat(cells, self.starts, axis=2), weights)


class _RankedRows:
    """The largest cells of every row."""

    def __init__(self, call: Banded, rows: int, top: TopK) -> None:
        self.top = top
        shape = (1 if top.mean_heads else call.h, rows, min(top.count, call.m))
        self.weights, self.keys = zeros(shape, call.like), integers(shape, -1, call.like)
        self.scores = zeros(shape, call.like) - float("inf") if top.scores and call.shows_scores else None
        self.measures = None if top.by == "weight" else zeros(shape, call.like)
        self.totals = None if top.by == "weight" else zeros(shape[:2], call.like)

    def add(self, band: Band, inside: RowIndex, kept: RowIndex) -> None:
        """Rank the keys of the rows `inside` the band."""
        together = self.top.mean_heads
        heads = slice(None) if together else band.heads
        weights = band.measured("weight", together=together)[:, inside]
        measured = weights if self.measures is None else band.measured(self.top.by, together=together)[:, inside]
        values, places = heaviest(measured, min(self.top.count, band.last - band.first))
        k = places.shape[-1]
        if self.measures is not None:
            self.measures[heads, kept, :k] = values
            self.totals[heads, kept] = namespace(measured).sum(measured, axis=-1)  # type: ignore[index]
            values = take_along_last_axis(weights, places)
        self.weights[heads, kept, :k], self.keys[heads, kept, :k] = values, places + band.first
        if self.scores is not None:
            scores = band.raw_scores[:, inside]  # type: ignore[index]
            scores = with_infinities(scores).mean(0)[None] if together else scores
            self.scores[heads, kept, :k] = with_infinities(take_along_last_axis(scores, places))

    def result(self) -> RankedKeys:
        """The ranked keys; a mean over heads has a weight where one of them isn't masked, and yet no score."""
        weights, keys, scores, measures, totals = (
            None if x is None else to_numpy(x)
            for x in (self.weights, self.keys, self.scores, self.measures, self.totals)
        )
        keys[(weights == 0) & (True if scores is None else np.isneginf(scores))] = -1  # type: ignore[index]
        return RankedKeys(weights, scores, keys, measures, totals)  # type: ignore[arg-type]


class _Columns:
    """Column sums over some rows."""

    def __init__(self, call: Banded, wanted: ColumnSums) -> None:
        self.wanted, self.places = wanted, RowPlaces(wanted.rows, call.n)
        self.sums = zeros((1 if wanted.joint else call.h, call.m), call.like)

    def add(self, band: Band) -> None:
        """Add the band's rows: a product with ones, several times faster than a sum across rows."""
        fit = self.places.of(band)
        if fit is None:
            return
        cells = band.measured(self.wanted.by, together=self.wanted.joint)[:, fit.inside]  # [h, b, c]
        ones = zeros((cells.shape[0], 1, cells.shape[1]), cells) + 1
        heads = slice(None) if self.wanted.joint else band.heads
        self.sums[heads, band.first : band.last] += (ones @ cells)[:, 0, :]

    def result(self) -> np.ndarray:
        """The sums in float64."""
        return to_numpy(self.sums).astype(np.float64)


class _Blocks:
    """A matrix pooled to blocks: its memory grows with the blocks, not with n times m."""

    def __init__(self, call: Banded, pool: Pool) -> None:
        self.pool, self.places = pool, RowPlaces(pool.picked, call.n)
        self.columns = None if pool.columns is None else np.array(pool.columns, dtype=np.int64)
        m = call.m if pool.columns is None else len(pool.columns)
        shape = (1 if pool.mean_heads else call.h, -(-len(self.places) // pool.rows), -(-m // pool.keys))
        signed = pool.of == "scores" or not call.rule.softmax  # without a softmax weights may be negative
        self.kept = np.full(shape, -np.inf if (signed or pool.lowest) and not pool.sums else 0.0)

    def add(self, band: Band) -> None:
        """Fold the band's cells into their blocks: rows first, which is quick, then keys of the few rows left."""
        pool, fit = self.pool, self.places.of(band)
        if fit is None:
            return
        cells, first = self._kept_columns(self._cells(band)[:, fit.inside, :], band)
        if pool.lowest:
            cells = to_numpy(cells)
            cells = np.where(np.isneginf(cells), cells, -cells)
        row = fit.kept.start if isinstance(fit.kept, slice) else fit.kept[0]
        blocks = folded(
            to_numpy(folded(cells, -2, row, pool.rows, sums=pool.sums)), -1, first, pool.keys, sums=pool.sums
        )
        top, left = row // pool.rows, first // pool.keys
        heads = slice(None) if pool.mean_heads else band.heads
        target = self.kept[heads, top : top + blocks.shape[1], left : left + blocks.shape[2]]
        (np.add if pool.sums else np.maximum)(target, blocks, out=target)

    def _cells(self, band: Band) -> Array:
        """The band's cells `[h, b, c]`; on the processor a view in NumPy, whose maxima across rows are the fastest."""
        cells: Array
        if self.pool.of == "scores":
            cells = band.scores if not self.pool.mean_heads else band.scores.mean(0)[None]  # type: ignore[union-attr]
        else:
            cells = band.measured(self.pool.by, together=self.pool.mean_heads)
        if self.pool.rescaled:
            cells = to_numpy(cells)
            return renormalised(cells, cells.sum(axis=-1, keepdims=True))
        return cells if is_torch(cells) and cells.device.type != "cpu" else to_numpy(cells)

    def _kept_columns(self, cells: Array, band: Band) -> tuple[Array, int]:
        """The band's cells `[h, b, c]` of the keys that have a column, and the first of these columns."""
        if self.columns is None:
            return cells, band.first
        first, last = np.searchsorted(self.columns, (band.first, band.last))
        return cells[:, :, (self.columns[first:last] - band.first).tolist()], int(first)

    def result(self) -> np.ndarray:
        """The blocks; -inf where a block of scores has none, of the lowest inf."""
        if self.pool.lowest:
            return -self.kept
        return self.kept if self.pool.of == "scores" else np.where(np.isneginf(self.kept), 0.0, self.kept)
