"""Row statistics of packed texts by batched matrix products of a library, where no compiled code suits."""

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from attn_cli.arrays import Array, at_least_float32, from_numpy, is_torch, namespace, to_numpy
from attn_cli.kernel.definition.mask import Intervals
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.wanted import RankedKeys, RowStats, Wanted

_CELLS = 2**20  # of scores at a time: 4 MiB
_ROWS = 128  # at a time, of a text that is more than that
_MOMENTS = frozenset({"masked", "maximum", "logsumexp", "weight_sum", "entropy_nats", "distance"})
_ASKED = ("moments", "key_sets", "vectors", "tops")
_MASKED = -1e30  # in place of a score: e to it is 0, and finite differences stay finite


def padded_stats(
    q: Array, k: Array, v: Array, rule: Rule, texts: Sequence[slice], wanted: Wanted, output: Array | None
) -> RowStats | None:
    """The statistics that `wanted` asks for of packed texts' rows, by products over texts padded alike.

    q `[h, n, d]`, k `[g, n, d]`, v `[g, n, e]` begin with the texts; their rows of `output` `[h, n, e]` are filled,
    if it isn't None.
    """
    seen = rule.mask
    if not is_torch(q) or not rule.softmax or rule.bias is not None or rule.sink is not None:
        return None
    if not isinstance(seen, Intervals) or not _is_known(wanted):
        return None
    length, total = max(text.stop - text.start for text in texts), texts[-1].stop
    places = np.concatenate([np.arange(text.stop - text.start) + at * length for at, text in enumerate(texts)])
    ahead, rows = places - np.arange(total), len(texts) * length  # by which a padded row lies behind the packed one

    def padded(x: Array) -> Array:
        wide = x.new_zeros((x.shape[0], rows, x.shape[2]))
        wide[:, places] = x[:, :total]
        return wide

    bounds = np.zeros((2, rows), np.int64)
    bounds[:, places] = np.stack([seen.first[:total], seen.last[:total]]) + ahead
    walk = _PaddedWalk(
        padded(q), padded(k), padded(v), replace(rule, mask=Intervals(*bounds)), len(texts),
        _padded_wanted(wanted, places, rows),
    )  # fmt: skip
    height = min(length, _ROWS)
    at_once = max(1, _CELLS // (q.shape[0] * height * length))
    for first in range(0, len(texts), at_once):
        for start in range(0, length, height):
            walk.add(slice(first, min(first + at_once, len(texts))), slice(start, min(start + height, length)))
    if output is not None:
        output[:, :total] = walk.output()[:, places]
    return _packed_stats(walk.stats(), wanted, places)


def _is_known(wanted: Wanted) -> bool:
    others = any(getattr(wanted, x.name) for x in fields(wanted) if x.name not in _ASKED)
    if len(wanted.tops) != 1 or not wanted.key_sets or not wanted.vectors or others:
        return False
    top = wanted.tops[0]
    largest = (top.count, top.mean_heads, top.by, top.scores) == (1, False, "weight", False)
    return largest and _MOMENTS.issuperset(wanted.moments)


def _padded_wanted(wanted: Wanted, places: np.ndarray, rows: int) -> Wanted:
    total, ahead = len(places), (places - np.arange(len(places)))[:, None]
    sets = tuple(np.full((rows, keys.shape[1]), -1) for keys in wanted.key_sets)
    for of_rows, keys in zip(sets, wanted.key_sets, strict=True):
        of_rows[places] = np.where(keys[:total] < 0, -1, keys[:total] + ahead)
    vectors = np.zeros((len(wanted.vectors), rows), np.float32)
    vectors[:, places] = np.stack(wanted.vectors)[:, :total]
    return replace(wanted, key_sets=sets, vectors=tuple(vectors))


def _packed_stats(stats: RowStats, wanted: Wanted, places: np.ndarray) -> RowStats:
    names = [*wanted.moments, "key_sums", "vector_sums"]
    ((top, ranked),) = stats.tops.items()
    keys = ranked.keys[:, places]
    keys = np.where(keys < 0, -1, keys - (places - np.arange(len(places)))[:, None])
    return RowStats(
        wanted,
        **{name: getattr(stats, name)[:, places] for name in names},
        tops={top: RankedKeys(ranked.weights[:, places], None, keys)},
    )


class _PaddedWalk:
    """A walk over texts of n rows each, in which a text's last row comes first: `[g, texts, h / g, n, ...]`."""

    def __init__(self, q: Array, k: Array, v: Array, rule: Rule, count: int, wanted: Wanted) -> None:
        self.rule, self.count, self.wanted = rule, count, wanted
        (self.top,) = wanted.tops
        q, k, v = (at_least_float32(x) for x in (q, k, v))
        seen = rule.mask
        assert isinstance(seen, Intervals)
        xp, (self.h, rows, d), g, e = namespace(q), q.shape, k.shape[0], v.shape[-1]
        self.n, self.share, self.e = rows // count, self.h // g, e
        shape = (g, count, self.share, self.n)
        by_group = xp.permute(xp.reshape(q * rule.scale, (g, self.share, count, self.n, d)), (0, 2, 1, 3, 4))
        self.queries = xp.flip(by_group, axis=3)
        self.keys = xp.reshape(k, (g, count, self.n, d))
        marks = np.moveaxis(np.stack(wanted.vectors).reshape(-1, count, self.n), 0, -1).astype(np.float32)
        of_marks = from_numpy(marks, v)[None].expand(g, -1, -1, -1)
        self.values = xp.concat([xp.reshape(v, (g, count, self.n, e)), of_marks], axis=-1)  # both in one product
        self.first, self.last = (self._local(x) for x in (seen.first, seen.last))  # [texts, n]
        self.columns = self._local(np.concatenate(wanted.key_sets, axis=1))

        self.of_lists = from_numpy(_sums_of_columns(wanted), q)

        def unset(*last: int) -> Array:
            return xp.empty((*shape, *last), dtype=q.dtype, device=q.device)

        self.mixed, self.listed = unset(e + marks.shape[-1]), unset(self.of_lists.shape[-1])
        self.surprise, self.largest, self.highest = unset(), unset(), unset()
        self.by_place = unset(2)
        self.top_keys = xp.empty(shape, dtype=xp.int64, device=q.device)

    def _local(self, of_rows: np.ndarray) -> np.ndarray:
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
            self.highest[:, texts, :, rows] = -float("inf")
            return
        keys = slice(int(first[live].min()), int(last[live].max()))
        q, k, values = self.queries[:, texts, :, rows], self.keys[:, texts, keys], self.values[:, texts, keys]
        xp, (g, b, share, r, d), m = namespace(q), q.shape, k.shape[2]
        scores = xp.bmm(xp.reshape(q, (g * b, share * r, d)), xp.reshape(xp.transpose(k, -1, -2), (g * b, d, m)))
        scores = xp.reshape(self.rule.capped(scores), (g, b, share, r, m))
        for hidden in self._hidden(first, last, keys):
            places = np.arange(hidden.start, hidden.stop)
            unseen = (places < first[..., None]) | (places >= last[..., None])  # [b, r, hidden]
            columns = scores[..., hidden.start - keys.start : hidden.stop - keys.start]
            columns.masked_fill_(xp.asarray(unseen, device=q.device)[:, None], _MASKED)
        self.highest[:, texts, :, rows] = scores.amax(-1)
        logarithms, weights = xp.log_softmax(scores, -1), xp.softmax(scores, -1)
        if not live.all():
            weights *= from_numpy(live.astype(np.float32), q)[:, None, :, None]
        mixed = xp.bmm(xp.reshape(weights, (g * b, share * r, m)), xp.reshape(values, (g * b, m, -1)))
        self.mixed[:, texts, :, rows] = xp.reshape(mixed, (g, b, share, r, -1))
        self._note(weights, texts, rows, keys)
        self.surprise[:, texts, :, rows] = -xp.sum(xp.multiply(weights, logarithms, out=logarithms), axis=-1)

    def _hidden(self, first: np.ndarray, last: np.ndarray, keys: slice) -> list[slice]:
        start, stop = int(first.max()), int(last.min())
        if start >= stop:
            return [keys]
        return [x for x in (slice(keys.start, start), slice(stop, keys.stop)) if x.start < x.stop]

    def _note(self, weights: Array, texts: slice, rows: slice, keys: slice) -> None:
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

    def _by_place(self, weights: Array, rows: slice, keys: slice) -> Array:
        """The sums of weights times distance, and of all: what depends on the place alone."""
        xp, (g, b, share, r, m) = namespace(weights), weights.shape
        far = np.arange(keys.start - (self.n - 1 - rows.start), keys.stop - (self.n - rows.stop))  # key less query
        table = np.stack([np.abs(far), np.ones(len(far))], axis=1).astype(np.float32)
        tables = xp.as_strided(from_numpy(table, weights), (r, m, 2), (2, 2, 1))
        in_rows = xp.permute(xp.reshape(weights, (g * b * share, r, m)), (1, 0, 2))
        sums = xp.reshape(xp.bmm(in_rows, tables), (r, g, b, share, 2))
        return xp.permute(sums, (1, 2, 3, 0, 4))

    def output(self) -> Array:
        xp = namespace(self.mixed)
        by_head = xp.permute(xp.flip(self.mixed[..., : self.e], axis=3), (0, 2, 1, 3, 4))
        return xp.reshape(by_head, (self.h, self.count * self.n, self.e))

    def stats(self) -> RowStats:
        """The statistics of all rows, in their order."""
        xp, e = namespace(self.mixed), self.e
        seen = self.largest > 0
        keys, unseen = xp.where(seen, self.top_keys, -1)[..., None], -float("inf")
        return RowStats(
            self.wanted,
            masked=self._of_rows(~seen),
            maximum=self._of_rows(xp.where(seen, self.highest, unseen)),
            logsumexp=self._of_rows(xp.where(seen, self.highest - xp.log(self.largest), unseen)),
            weight_sum=self._of_rows(self.by_place[..., -1]),
            entropy_nats=self._of_rows(self.surprise),
            distance=self._of_rows(self.by_place[..., -2]),
            key_sums=self._of_rows(self.listed),
            vector_sums=self._of_rows(self.mixed[..., e:]),
            tops={self.top: RankedKeys(self._of_rows(self.largest[..., None]), None, self._of_rows(keys))},
        )

    def _of_rows(self, x: Array) -> np.ndarray:
        xp = namespace(x)
        made = xp.moveaxis(xp.flip(x, axis=3), 2, 1)
        return to_numpy(xp.reshape(made, (self.h, self.count * self.n, *x.shape[4:])))


def _sums_of_columns(wanted: Wanted) -> np.ndarray:
    widths = [keys.shape[1] for keys in wanted.key_sets]
    return np.repeat(np.eye(len(widths), dtype=np.float32), widths, axis=0)
