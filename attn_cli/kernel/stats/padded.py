"""Numbers of every row of texts side by side where no compiled code walks them: some library calls for many texts.

Texts of n rows each are a batch of matrices of n x n cells with their padding, a few texts or rows at a time.
"""

import numpy as np

from attn_cli.arrays import Array, at_least_float32, from_numpy, is_torch, namespace, to_numpy
from attn_cli.kernel.stats.packed import PackedTexts
from attn_cli.kernel.stats.wanted import RankedKeys, RowStats, Wanted

_CELLS = 2**20  # of scores at a time: 4 MiB
_ROWS = 128  # at a time, of a text that is more than that
_MOMENTS = frozenset({"masked", "weight_sum", "entropy_nats", "distance"})
_MASKED = -1e30  # in place of a score: e to it is 0, and finite differences stay finite


def padded_stats(texts: PackedTexts, count: int, wanted: Wanted) -> RowStats | None:
    """Weight sums, entropies, distances, key sets, vectors, column sums, one list of bins and the largest weight.

    Their output is filled. None for other arrays than tensors, other moments, and rules with a bias, a sink or without
    softmax.
    """
    rule = texts.rule
    if not is_torch(texts.q) or not rule.softmax or rule.bias is not None or rule.sink is not None:
        return None
    if not _MOMENTS.issuperset(wanted.moments):
        return None
    if texts.unpadded is not None:
        wide = texts.with_padding()
        stats = padded_stats(wide, count, wanted)
        if texts.output is not None:
            texts.unpadded.without_padding(wide.output, texts.output)
        return stats
    h, n = texts.q.shape[0], texts.q.shape[1] // count
    walk = _PaddedWalk(texts, count, wanted)
    height = min(n, _ROWS)
    at_once = max(1, _CELLS // (h * height * n))
    for first in range(0, count, at_once):
        for start in range(0, n, height):
            walk.add(slice(first, min(first + at_once, count)), slice(start, min(start + height, n)))
    return walk.stats()


class _PaddedWalk:
    """A walk over texts of n rows each, in which a text's last row comes first: `[g, texts, h / g, n, ...]`."""

    def __init__(self, texts: PackedTexts, count: int, wanted: Wanted) -> None:
        self.texts, self.count, self.wanted = texts, count, wanted
        (self.edges,), (self.columns_wanted,), (self.top,) = wanted.distance_edges, wanted.column_sums, wanted.tops
        q, k, v = (at_least_float32(x) for x in (texts.q, texts.k, texts.v))
        xp, (self.h, rows, d), g, e = namespace(q), q.shape, k.shape[0], v.shape[-1]
        self.n, self.share = rows // count, self.h // g
        shape = (g, count, self.share, self.n)
        by_group = xp.permute(xp.reshape(q * texts.rule.scale, (g, self.share, count, self.n, d)), (0, 2, 1, 3, 4))
        self.queries = xp.flip(by_group, axis=3)
        self.keys = xp.reshape(k, (g, count, self.n, d))
        marks = np.moveaxis(np.stack(wanted.vectors).reshape(-1, count, self.n), 0, -1).astype(np.float32)
        of_marks = from_numpy(marks, v)[None].expand(g, -1, -1, -1)
        self.values = xp.concat([xp.reshape(v, (g, count, self.n, e)), of_marks], axis=-1)  # both in one product
        self.first, self.last = (self._local(x) for x in (texts.span.first, texts.span.last))  # [texts, n]
        self.columns = self._local(np.concatenate(wanted.key_sets, axis=1))

        self.of_lists = from_numpy(_sums_of_columns(wanted), q)

        def unset(*last: int) -> Array:
            return xp.empty((*shape, *last), dtype=q.dtype, device=q.device)

        self.mixed, self.listed = unset(e + marks.shape[-1]), unset(self.of_lists.shape[-1])
        self.surprise, self.largest, self.by_place = unset(), unset(), unset(len(self.edges) + 1)
        self.top_keys = xp.empty(shape, dtype=xp.int64, device=q.device)
        self.received = np.zeros(shape)  # of keys, which come as they are in the text

    def _local(self, of_rows: np.ndarray) -> np.ndarray:
        """Keys of rows `[R, ...]` as `[texts, n, ...]`, counted from each text's own first, -1 for none."""
        shaped = of_rows.reshape(self.count, self.n, *of_rows.shape[1:]).astype(np.int64)
        starts = np.arange(self.count).reshape(-1, *(1,) * (shaped.ndim - 1)) * self.n
        return np.where(shaped < 0, -1, shaped - starts)[:, ::-1]

    def add(self, texts: slice, rows: slice) -> None:
        """Note some rows, counted from the last, of some texts."""
        first, last = self.first[texts, rows], self.last[texts, rows]  # [b, r]
        live = last > first
        if not live.any():
            for numbers in (self.mixed, self.listed, self.surprise, self.largest, self.by_place, self.top_keys):
                numbers[:, texts, :, rows] = 0
            return
        keys = slice(int(first[live].min()), int(last[live].max()))
        q, k, values = self.queries[:, texts, :, rows], self.keys[:, texts, keys], self.values[:, texts, keys]
        xp, (g, b, share, r, d), m = namespace(q), q.shape, k.shape[2]
        scores = xp.bmm(xp.reshape(q, (g * b, share * r, d)), xp.reshape(xp.transpose(k, -1, -2), (g * b, d, m)))
        scores = xp.reshape(self.texts.rule.capped(scores), (g, b, share, r, m))
        for hidden in self._hidden(first, last, keys):
            places = np.arange(hidden.start, hidden.stop)
            unseen = (places < first[..., None]) | (places >= last[..., None])  # [b, r, hidden]
            columns = scores[..., hidden.start - keys.start : hidden.stop - keys.start]
            columns.masked_fill_(xp.asarray(unseen, device=q.device)[:, None], _MASKED)
        logarithms, weights = xp.log_softmax(scores, -1), xp.softmax(scores, -1)
        if not live.all():
            weights *= from_numpy(live.astype(np.float32), q)[:, None, :, None]
        mixed = xp.bmm(xp.reshape(weights, (g * b, share * r, m)), xp.reshape(values, (g * b, m, -1)))
        self.mixed[:, texts, :, rows] = xp.reshape(mixed, (g, b, share, r, -1))
        self._note(weights, texts, rows, keys)
        self.surprise[:, texts, :, rows] = -xp.sum(xp.multiply(weights, logarithms, out=logarithms), axis=-1)

    def _hidden(self, first: np.ndarray, last: np.ndarray, keys: slice) -> list[slice]:
        """Stretches of keys outside which all rows see all of `keys`."""
        start, stop = int(first.max()), int(last.min())
        if start >= stop:
            return [keys]
        return [x for x in (slice(keys.start, start), slice(stop, keys.stop)) if x.start < x.stop]

    def _note(self, weights: Array, texts: slice, rows: slice, keys: slice) -> None:
        """Note what is read off weights `[g, b, h / g, r, m]`."""
        xp, m = namespace(weights), weights.shape[-1]
        columns = self.columns[texts, rows] - keys.start
        inside = (columns >= 0) & (columns < m)  # [b, r, c]
        at = xp.asarray(np.where(inside, columns, 0), device=weights.device)[:, None]
        single = xp.gather(weights, -1, at.expand(*weights.shape[:-1], -1))
        single *= from_numpy(inside.astype(np.float32), weights)[:, None]
        self.listed[:, texts, :, rows] = xp.matmul(single, self.of_lists)
        self.largest[:, texts, :, rows], top = weights.max(-1)
        starts = np.arange(texts.start, texts.stop)[:, None, None] * self.n + keys.start
        self.top_keys[:, texts, :, rows] = top + xp.asarray(starts, device=weights.device)
        self.by_place[:, texts, :, rows] = self._by_place(weights, rows, keys)
        self.received[:, texts, :, keys] += to_numpy(xp.sum(weights, axis=-2))

    def _by_place(self, weights: Array, rows: slice, keys: slice) -> Array:
        """The sums of weights on each stretch of keys, times distance, and on all: what depends on the place alone.

        A product for every row with a table of places: that of each lies one place after that of the row below it.
        """
        xp, (g, b, share, r, m) = namespace(weights), weights.shape
        far = np.arange(keys.start - (self.n - 1 - rows.start), keys.stop - (self.n - rows.stop))  # key less query
        of_steps = (far[:, None] >= self.edges[:-1]) & (far[:, None] < self.edges[1:])
        table = np.concatenate([of_steps, np.abs(far)[:, None], np.ones((len(far), 1))], axis=1).astype(np.float32)
        width = table.shape[1]
        tables = xp.as_strided(from_numpy(table, weights), (r, m, width), (width, width, 1))
        in_rows = xp.permute(xp.reshape(weights, (g * b * share, r, m)), (1, 0, 2))
        sums = xp.reshape(xp.bmm(in_rows, tables), (r, g, b, share, width))
        return xp.permute(sums, (1, 2, 3, 0, 4))

    def stats(self) -> RowStats:
        """The statistics of all rows, in their order; the texts' output is filled."""
        xp, e = namespace(self.mixed), self.texts.v.shape[-1]
        if self.texts.output is not None:
            output = xp.reshape(self.texts.output, (-1, self.share, self.count, self.n, e))
            output[...] = xp.permute(xp.flip(self.mixed[..., :e], axis=3), (0, 2, 1, 3, 4))
        keys = xp.where(self.largest > 0, self.top_keys, -1)[..., None]
        return RowStats(
            self.wanted,
            masked=self._of_rows(self.largest == 0),
            weight_sum=self._of_rows(self.by_place[..., -1]),
            entropy_nats=self._of_rows(self.surprise),
            distance=self._of_rows(self.by_place[..., -2]),
            key_sums=self._of_rows(self.listed),
            vector_sums=self._of_rows(self.mixed[..., e:]),
            distance_sums=(self._of_rows(self.by_place[..., :-2]),),
            column_sums={self.columns_wanted: np.moveaxis(self.received, 2, 1).reshape(self.h, -1)},
            tops={self.top: RankedKeys(self._of_rows(self.largest[..., None]), None, self._of_rows(keys))},
        )

    def _of_rows(self, x: Array) -> np.ndarray:
        """`[g, texts, h / g, n, ...]`, the last row first, as `[h, R, ...]`."""
        xp = namespace(x)
        made = xp.moveaxis(xp.flip(x, axis=3), 2, 1)
        return to_numpy(xp.reshape(made, (self.h, self.count * self.n, *x.shape[4:])))


def _sums_of_columns(wanted: Wanted) -> np.ndarray:
    """Which key set the cells of each column of all of them add to."""
    widths = [keys.shape[1] for keys in wanted.key_sets]
    return np.repeat(np.eye(len(widths), dtype=np.float32), widths, axis=0)
