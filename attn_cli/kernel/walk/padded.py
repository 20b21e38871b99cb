"""Numbers of every row of texts side by side where no compiled code walks them: some library calls for many texts.

Texts of n rows each are a batch of matrices of n x n cells with their padding, a few texts or rows at a time.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attn_cli.arrays import Array, at_least_float32, from_numpy, is_torch, namespace, to_numpy
from attn_cli.kernel.walk.packed import PackedTexts
from attn_cli.kernel.walk.row_numbers import RowNeeds, RowNumbers

_CELLS = 2**20  # of scores at a time: 4 MiB
_ROWS = 128  # at a time, of a text that is more than that
_MASKED = -1e30  # in place of a score: e to it is 0, and finite differences stay finite


def padded_numbers(texts: PackedTexts, count: int, needs: RowNeeds) -> RowNumbers | None:
    """The moments but for maximum and log_sum, cells, lists, marks, column sums, stretches and the largest weight.

    Their output is filled. None for other arrays than tensors, and for a rule with a bias, a sink, or without softmax.
    """
    rule = texts.rule
    if not is_torch(texts.q) or not rule.softmax or rule.bias is not None or rule.sink is not None:
        return None
    assert needs.cells is not None and needs.marks is not None and needs.steps is not None
    (h, rows, _), n = texts.q.shape, texts.q.shape[1] // count

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros((h, rows, *shape), np.float32)

    numbers = RowNumbers(
        None, mass=zeros(), surprise=zeros(), distance=zeros(), cells=zeros(needs.cells.shape[1]),
        list_sums=zeros(len(needs.lists)), mark_sums=zeros(len(needs.marks)), step_sums=zeros(len(needs.steps) - 1),
        received=np.zeros((h, rows)), top_weights=zeros(1), top_keys=np.full((h, rows, 1), -1),
    )  # fmt: skip
    walk = _PaddedWalk(texts, count, n, needs, numbers)
    height = min(n, _ROWS)
    at_once = max(1, _CELLS // (h * height * n))
    for first in range(0, count, at_once):
        for start in range(0, n, height):
            walk.add(slice(first, min(first + at_once, count)), slice(start, min(start + height, n)))
    return numbers


class _Weights(NamedTuple):
    """Weights `[g, b, h / g, r, m]`, their logarithms, and the sums of weight times mark `[g, b, h / g, r, marks]`."""

    weights: Array
    logarithms: Array
    marked: Array


@dataclass(frozen=True, eq=False)
class _PaddedWalk:
    """A walk over texts of n rows each, whose numbers of rows it fills; within it the last row comes first."""

    texts: PackedTexts
    count: int
    n: int
    needs: RowNeeds
    numbers: RowNumbers

    def _local(self, of_rows: np.ndarray, texts: slice, rows: slice) -> np.ndarray:
        """Keys of rows `[R, ...]` as `[texts, rows, ...]`, counted from each text's own first."""
        shaped = of_rows.reshape(self.count, self.n, *of_rows.shape[1:])[texts, rows].astype(np.int64)
        starts = np.arange(texts.start, texts.stop).reshape(-1, *(1,) * (shaped.ndim - 1)) * self.n
        made: np.ndarray = np.where(shaped < 0, -1, shaped - starts)[:, ::-1]
        return made

    def add(self, texts: slice, rows: slice) -> None:
        """Note some rows of some texts."""
        first, last = (self._local(x, texts, rows) for x in self.texts.span)  # [b, r]
        live = last > first
        if not live.any():
            if self.texts.output is not None:
                self._of_heads(self.texts.output)[:, texts, rows] = 0
            return
        keys = slice(int(first[live].min()), int(last[live].max()))
        q, k, v = (self._of_heads(at_least_float32(x))[:, texts] for x in (self.texts.q, self.texts.k, self.texts.v))
        xp, k, v = namespace(q), k[:, :, keys], v[:, :, keys]
        q = xp.flip(q[:, :, rows], axis=2)
        (h, b, r, d), g = q.shape, k.shape[0]
        stacked = xp.permute(xp.reshape(q, (g, h // g, b, r, d)), (0, 2, 1, 3, 4))
        stacked = xp.reshape(stacked * self.texts.rule.scale, (g * b, h // g * r, d))
        scores = xp.bmm(stacked, xp.reshape(xp.transpose(k, -1, -2), (g * b, d, -1)))
        scores = xp.reshape(self.texts.rule.capped(scores), (g, b, h // g, r, -1))
        places = np.arange(keys.start, keys.stop)
        hidden = (places < first[..., None]) | (places >= last[..., None])  # [b, r, m]
        scores.masked_fill_(xp.asarray(hidden, device=q.device)[:, None], _MASKED)
        logarithms = xp.log_softmax(scores, -1)
        weights = xp.exp(logarithms)  # [g, b, h / g, r, m]
        if not live.all():
            weights *= from_numpy(live.astype(np.float32), q)[:, None, :, None]
        marks = self._marks(texts, keys)  # [b, m, marks]
        values = xp.concat([v, from_numpy(marks, v)[None].expand(g, -1, -1, -1)], axis=-1)  # both in one product
        mixed = xp.bmm(xp.reshape(weights, (g * b, -1, len(places))), xp.reshape(values, (g * b, len(places), -1)))
        mixed = xp.reshape(mixed, (g, b, h // g, r, -1))
        if self.texts.output is not None:
            output = xp.reshape(xp.permute(mixed[..., : v.shape[-1]], (0, 2, 1, 3, 4)), (h, b, r, -1))
            self._of_heads(self.texts.output)[:, texts, rows] = xp.flip(output, axis=2)
        self._note(_Weights(weights, logarithms, mixed[..., v.shape[-1] :]), texts, rows, keys)

    def _marks(self, texts: slice, keys: slice) -> np.ndarray:
        """The marks of some keys of some texts `[b, m, marks]`."""
        assert self.needs.marks is not None
        of_texts = self.needs.marks.reshape(len(self.needs.marks), self.count, self.n)[:, texts, keys]
        return np.moveaxis(of_texts, 0, -1).astype(np.float32)

    def _of_heads(self, x: Array) -> Array:
        """`[heads, R, ...]` as `[heads, texts, n, ...]`."""
        return x.reshape(x.shape[0], self.count, self.n, *x.shape[2:])

    def _note(self, noted_of: "_Weights", texts: slice, rows: slice, keys: slice) -> None:
        weights, logarithms, marked = noted_of
        xp, needs = namespace(weights), self.needs
        assert needs.cells is not None and needs.marks is not None and needs.steps is not None
        (g, b, share, r, m), count = weights.shape, needs.cells.shape[1]
        columns = self._local(np.concatenate([needs.cells, *needs.lists], axis=1), texts, rows) - keys.start
        inside = (columns >= 0) & (columns < m)  # [b, r, c]
        at = xp.asarray(np.where(inside, columns, 0), device=weights.device)[None, :, None].expand(
            g, b, share, r, columns.shape[-1]
        )
        single = xp.gather(weights, -1, at) * from_numpy(inside.astype(np.float32), weights)[:, None]
        largest, top = weights.max(-1)
        by_place = self._by_place(weights, rows, keys)  # [g, b, share, r, stretches + 2]
        received = to_numpy(xp.sum(weights, axis=-2))  # [g, b, share, m]
        self._of_heads(self.numbers.received)[:, texts, keys] += np.moveaxis(received, 2, 1).reshape(g * share, b, m)
        starts = np.arange(texts.start, texts.stop)[:, None, None] * self.n + keys.start
        top = xp.where(largest > 0, top + xp.asarray(starts, device=weights.device), -1)
        for sums, of_rows in (
            (self.numbers.mass, by_place[..., -1]),
            (self.numbers.distance, by_place[..., -2]),
            (self.numbers.step_sums, by_place[..., :-2]),
            (self.numbers.surprise, -xp.sum(weights * logarithms, axis=-1)),
            (self.numbers.cells, single[..., :count]),
            (self.numbers.list_sums, xp.matmul(single, from_numpy(self._of_lists(count), weights))),
            (self.numbers.mark_sums, marked),
            (self.numbers.top_weights, largest[..., None]),
            (self.numbers.top_keys, top[..., None]),
        ):
            noted = xp.moveaxis(xp.flip(of_rows, axis=3), 2, 1)  # [g, h / g, b, r, ...]
            noted = xp.reshape(noted, (g * share, b, r, *noted.shape[4:]))
            xp.asarray(self._of_heads(sums))[:, texts, rows] = noted  # the library copies with all threads

    def _of_lists(self, cells: int) -> np.ndarray:
        """Which list each column is of, the first so many of none `[cells + columns, lists]`."""
        widths = [keys.shape[1] for keys in self.needs.lists]
        of_columns = np.repeat(np.eye(len(widths), dtype=np.float32), widths, axis=0)
        made: np.ndarray = np.pad(of_columns, ((cells, 0), (0, 0)))
        return made

    def _by_place(self, weights: Array, rows: slice, keys: slice) -> Array:
        """The sums of weights on each stretch of keys, times distance, and on all: what depends on the place alone.

        A product for every row with a table of places: that of each lies one place after that of the row below it.
        """
        xp, (g, b, share, r, m) = namespace(weights), weights.shape
        assert self.needs.steps is not None
        far = np.arange(keys.start - rows.stop + 1, keys.stop - rows.start)  # key less query
        of_steps = (far[:, None] >= self.needs.steps[:-1]) & (far[:, None] < self.needs.steps[1:])
        table = np.concatenate([of_steps, np.abs(far)[:, None], np.ones((len(far), 1))], axis=1).astype(np.float32)
        width = table.shape[1]
        tables = xp.as_strided(from_numpy(table, weights), (r, m, width), (width, width, 1))
        in_rows = xp.permute(xp.reshape(weights, (g * b * share, r, m)), (1, 0, 2))
        sums = xp.reshape(xp.bmm(in_rows, tables), (r, g, b, share, width))
        return xp.permute(sums, (1, 2, 3, 0, 4))
