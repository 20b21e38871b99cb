"""Statistics gathered band by band: of single rows (moments, sums over key sets, the largest cells), or of many."""

from collections.abc import Sequence

import numpy as np

from attn_cli.arrays import (
    Array,
    from_numpy,
    itemsize,
    namespace,
    on_cpu,
    row_dot,
    take_along_last_axis,
    to_numpy,
    zeros,
)
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.blocks import folded
from attn_cli.kernel.bands.masked_cells import logarithms, with_infinities
from attn_cli.kernel.bands.picked_rows import RowIndex, RowPlaces
from attn_cli.kernel.stats.banded import Banded
from attn_cli.kernel.stats.topk import heaviest
from attn_cli.kernel.stats.wanted import ColumnSums, Pool, RankedKeys, TopK


def notes(call: Banded, *shape: int) -> Array:
    """Zeros in which statistics of a call are noted: NumPy's in main memory, whose small steps cost less."""
    return np.zeros(shape, _dtype(call.like)) if on_cpu(call.like) else zeros(shape, call.like)


def _dtype(like: Array) -> type[np.floating]:
    return np.float64 if itemsize(like) == 8 else np.float32


class SummedColumns:
    """For each key the sum over rows of the weights on it, or of its shares of outputs (`wanted.by`), by bands."""

    def __init__(self, call: Banded, wanted: ColumnSums) -> None:
        self.wanted, self.places = wanted, RowPlaces(wanted.rows, call.n)
        self.sums = notes(call, 1 if wanted.mean_heads else call.h, call.m)

    def add(self, band: Band) -> None:
        """Add the weights of a band (some adjacent rows), of its wanted rows alone, to the sum of each key."""
        inside, _ = self.places.of(band)
        if not inside:
            return
        cells = band.measured(self.wanted.by, together=self.wanted.mean_heads)[:, inside]  # [h, b, c]
        heads = slice(None) if self.wanted.mean_heads else band.heads
        self.sums[heads, band.first : band.last] += namespace(cells).sum(cells, axis=1)

    def result(self) -> np.ndarray:
        """The sum for each key `[h, m]` in float64; `[1, m]` of all heads."""
        return to_numpy(self.sums).astype(np.float64)


class PooledBlocks:
    """Weights or scores pooled to blocks of rows x keys, gathered band by band."""

    def __init__(self, call: Banded, pool: Pool) -> None:
        self.pool, self.places = pool, RowPlaces(pool.picked, call.n)
        self.columns = None if pool.columns is None else np.array(pool.columns, dtype=np.int64)
        n, m = self.places.count, call.m if pool.columns is None else len(pool.columns)
        shape = (1 if pool.mean_heads else call.h, -(-n // pool.rows), -(-m // pool.keys))
        signed = pool.of == "scores" or not call.rule.softmax  # without a softmax weights may be negative
        self.kept = np.full(shape, -np.inf if signed or pool.lowest else 0.0, _dtype(call.like))

    def add(self, band: Band) -> None:
        """Take the wanted ones of a band's adjacent rows into blocks of rows x keys: rows are folded before keys."""
        pool, (inside, rows) = self.pool, self.places.of(band)
        if not inside:
            return
        cells, first = self._kept_columns(self._cells(band)[:, inside, :], band)
        if pool.lowest:
            cells = to_numpy(cells)
            cells = np.where(np.isneginf(cells), cells, -cells)
        kept = self.kept[slice(None) if pool.mean_heads else band.heads]
        blocks = folded(to_numpy(folded(cells, -2, rows.start, pool.rows)), -1, first, pool.keys)
        top, left = rows.start // pool.rows, first // pool.keys
        target = kept[:, top : top + blocks.shape[1], left : left + blocks.shape[2]]
        np.maximum(target, blocks, out=target)

    def _cells(self, band: Band) -> Array:
        """The band's cells `[h, b, c]`."""
        if self.pool.of == "scores":
            return band.scores if not self.pool.mean_heads else band.scores.mean(0)[None]  # type: ignore[union-attr]
        return band.measured(self.pool.by, together=self.pool.mean_heads)

    def _kept_columns(self, cells: Array, band: Band) -> tuple[Array, int]:
        if self.columns is None:
            return cells, band.first
        first, last = np.searchsorted(self.columns, (band.first, band.last))
        return cells[:, :, (self.columns[first:last] - band.first).tolist()], int(first)

    def result(self) -> np.ndarray:
        """The largest or smallest number of each block, `[h, blocks of rows, blocks of keys]`."""
        if self.pool.lowest:
            return -self.kept
        return self.kept if self.pool.of == "scores" else np.where(np.isneginf(self.kept), 0.0, self.kept)


class RowMoments:
    """Largest score, log-sum-exp, sum of weights, entropy and distance of each row, gathered band by band."""

    def __init__(self, call: Banded, rows: int, names: Sequence[str]) -> None:
        self.call, self.names = call, names
        self.has_scores = bool({"maximum", "logsumexp", "entropy_nats"} & {*names})
        noted = (notes(call, call.h, rows) for _ in range(5))
        self.largest, self.weight_sum, self.mean_gap, self.distance, self.hidden = noted
        self.maximum = self.largest - float("inf")
        self.hides = False

    def add(self, band: Band, inside: RowIndex, kept: slice) -> None:
        """Take in rows of a band (weights of some adjacent rows), whose scores are overwritten."""
        weights, xp, heads = band.weights[:, inside], namespace(band.weights), band.heads
        self.largest[heads, kept] = xp.max(weights, axis=-1)
        self.weight_sum[heads, kept] = (weights @ xp.ones_like(weights[0, 0, :, None]))[..., 0]  # quicker than a sum
        if self.has_scores:
            scores = logarithms(weights) if band.raw_scores is None else band.raw_scores[:, inside]
            top = xp.max(scores, axis=-1)
            self.maximum[heads, kept] = top
            # below the row's largest, for sums of whole scores would lose digits
            self.mean_gap[heads, kept] = row_dot(weights, xp.subtract(scores, top[..., None], out=scores))
        if "distance" in self.names:
            self.distance[heads, kept] = row_dot(weights, _gaps(band, self.call.m - self.call.n)[inside])
        if band.hidden is not None:
            self.hides = True
            self.hidden[heads, kept] = band.hidden[:, inside]

    def result(self) -> dict[str, np.ndarray]:
        """What was asked for by its name in `RowNumbers`, such as entropy_nats: `[h, R]` each in float64."""
        numbers = (
            self.largest,
            with_infinities(self.maximum),
            self.weight_sum,
            self.mean_gap,
            self.distance,
            self.hidden,
        )
        largest, maximum, total, mean_gap, distance, hidden = (to_numpy(x).astype(np.float64) for x in numbers)
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
            "entropy_nats": np.where(some, -total * logarithm - mean_gap, 0.0) if self.has_scores else total,
            "distance": distance,
        }
        hides = {"hidden": hidden} if self.hides else {}
        return {name: moments[name] for name in self.names} | hides


def _gaps(band: Band, offset: int) -> np.ndarray:
    """|i + offset - j| of a band's queries i and keys j `[b, c]`: each row a view of the same numbers."""
    first, last = band.stop - 1 + offset - band.first, band.start + offset - band.last
    gaps = np.abs(np.arange(first, last, -1, dtype=_dtype(band.weights)))
    return np.lib.stride_tricks.sliding_window_view(gaps, band.last - band.first)[::-1]


class KeySums:
    """For each row the sum of its weights on each of some sets of its keys, `[h, rows, sets]`, band by band."""

    def __init__(self, call: Banded, rows: int, key_sets: Sequence[np.ndarray]) -> None:
        self.columns = np.concatenate(key_sets, axis=1)
        self.starts = np.cumsum([0, *(keys.shape[1] for keys in key_sets)])[:-1]
        self.sums = notes(call, call.h, rows, len(key_sets))

    def add(self, band: Band, inside: RowIndex, kept: slice) -> None:
        """Take in rows of a band (weights of some adjacent rows)."""
        weights = band.weights[:, inside]
        at = self.columns[band.start : band.stop][inside] - band.first  # [b, c]
        seen = (at >= 0) & (at < band.last - band.first)
        cells = to_numpy(weights[:, np.arange(len(at))[:, None], np.where(seen, at, 0)]) * seen
        self.sums[band.heads, kept] = from_numpy(np.add.reduceat(cells, self.starts, axis=2), weights)


class RankedRows:
    """The keys of largest weight, or share of the row's output (`top.by`), of every row, gathered band by band."""

    def __init__(self, call: Banded, rows: int, top: TopK) -> None:
        self.top = top
        shape = (1 if top.mean_heads else call.h, rows, min(top.count, call.m))
        self.weights = notes(call, *shape)
        xp = namespace(self.weights)
        self.keys = xp.full(shape, -1, dtype=xp.int64, device=self.weights.device)
        self.scores = notes(call, *shape) - float("inf") if top.scores and call.shows_scores else None
        self.measures = None if top.by == "weight" else notes(call, *shape)

    def add(self, band: Band, inside: RowIndex, kept: slice) -> None:
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
