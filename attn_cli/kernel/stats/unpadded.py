"""Texts of a batch side by side without the padding between them: where their rows are among those with it.

Readers of a batch count rows and keys with padding, n for every text. A model may have run without it. What is asked
and noted is translated here, so that neither side knows of the other.
"""

from dataclasses import replace

import numpy as np

from attn_cli.arrays import Array, namespace
from attn_cli.kernel.definition.mask import Intervals
from attn_cli.kernel.stats.one_walk import RowScatter
from attn_cli.kernel.stats.wanted import RowStats, Wanted


class Unpadded:
    """T rows without padding, and the place of each among R rows with it.

    places  `[T]`, ascending; -1 for rows of no text, which come last
    rows    R
    """

    def __init__(self, places: np.ndarray, rows: int) -> None:
        self.rows = rows
        self.noted = RowScatter(places.astype(np.int32), rows)
        self._count = int((places >= 0).sum())
        self._places = places[: self._count].astype(np.int64)
        self._ahead = self._places - np.arange(self._count)  # [rows of texts], the same in all rows of a text
        self._padding = np.setdiff1d(np.arange(rows), self._places)
        self._wanted: tuple[Wanted, Wanted] | None = None
        self._span: tuple[Intervals, Intervals] | None = None

    def wanted(self, wanted: Wanted) -> Wanted:
        """What is wanted of R rows, of these; of all rows, without pools."""
        if self._wanted is None or self._wanted[0] is not wanted:
            vectors = np.zeros((len(wanted.vectors), len(self.noted.places)), np.float32)
            for vector, of_rows in zip(vectors, wanted.vectors, strict=True):
                vector[: self._count] = of_rows[self._places]
            key_sets = tuple(self._keys(keys) for keys in wanted.key_sets)
            self._wanted = wanted, replace(wanted, key_sets=key_sets, vectors=tuple(vectors))
        return self._wanted[1]

    def span(self, span: Intervals) -> Intervals:
        """The keys of R rows, of these; rows of no text have none."""
        if self._span is None or self._span[0] is not span:
            bounds = np.zeros((2, len(self.noted.places)), np.int32)
            for bound, of_rows in zip(bounds, (span.first, span.last), strict=True):
                bound[: self._count] = of_rows[self._places] - self._ahead
            self._span = span, Intervals(*bounds)
        return self._span[1]

    def _keys(self, keys: np.ndarray) -> np.ndarray:
        """Keys `[R, c]`, -1 for none, as those of these rows `[T, c]`."""
        here = np.full((len(self.noted.places), keys.shape[1]), -1, np.int32)
        mine = keys[self._places]
        here[: self._count] = np.where(mine < 0, -1, mine - self._ahead[:, None])
        return here

    def stats(self, stats: RowStats, wanted: Wanted) -> RowStats:
        """Statistics that were noted at `noted`, as the answer to `wanted`, with keys counted among the R rows."""
        sums = {}
        for each, received in stats.column_sums.items():
            sums[each] = np.zeros((len(received), self.rows))
            sums[each][:, self._places] = received[:, : self._count]
        ahead, real = np.zeros(self.rows, np.int64), np.zeros(self.rows, bool)
        ahead[self._places], real[self._places] = self._ahead, True
        tops = {}
        for top, ranked in stats.tops.items():
            there = real[:, None] & (ranked.keys >= 0)
            tops[top] = ranked._replace(keys=np.where(there, ranked.keys + ahead[:, None], -1))
        return replace(stats, wanted=wanted, column_sums=sums, tops=tops)

    def with_padding(self, x: Array) -> Array:
        """A tensor `[heads, T, width]` as `[heads, R, width]`, 0 in padding; heads of a row are adjacent in memory."""
        wide = self.memory(x)
        by_row, xp = wide.transpose(0, 1), namespace(x)
        by_row[self._padding] = 0
        by_row.index_copy_(0, xp.asarray(self._places, device=x.device), x.transpose(0, 1)[: self._count])
        return wide

    def memory(self, x: Array) -> Array:
        """Memory for `with_padding` of a tensor, unset."""
        return x.new_empty((self.rows, x.shape[0], x.shape[2])).transpose(0, 1)

    def without_padding(self, x: Array, output: Array) -> None:
        """Write a tensor `[heads, R, width]` into one `[heads, T, width]`, 0 in rows of no text."""
        by_row, xp = output.transpose(0, 1), namespace(x)
        by_row[: self._count] = x.transpose(0, 1).index_select(0, xp.asarray(self._places, device=x.device))
        by_row[self._count :] = 0
