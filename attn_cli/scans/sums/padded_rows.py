"""Packed texts among rows with padding, in which a scan counts: what it wants of rows, and what they are answered."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from attn_cli.kernel.definition.mask import Intervals
from attn_cli.kernel.stats.wanted import MOMENTS, RankedKeys, RowStats, Wanted

_OF_ROWS = {*MOMENTS, "key_sums", "vector_sums"}


class PaddedRows:
    """Moves statistics between R rows of texts with padding and the T without, which come first among n packed rows.

    real  which of the R rows are no padding, booleans `[R]`
    """

    def __init__(self, real: np.ndarray, n: int) -> None:
        self.count, self.n, self.places = len(real), n, np.flatnonzero(real)
        self._ahead = self.places - np.arange(len(self.places))  # [T], the same in all rows of a text

    def seen(self, seen: Intervals) -> Intervals:
        """The keys that each of the R padded rows sees, as numbers of these rows; padding sees none.

        seen  the same for the n packed rows, counted among those
        """
        bounds = np.zeros((2, self.count), np.int32)
        for bound, of_packed in zip(bounds, (seen.first, seen.last), strict=True):
            bound[self.places] = of_packed[: len(self.places)] + self._ahead
        return Intervals(*bounds)

    def packed(self, wanted: Wanted) -> Wanted:
        """The request `wanted` for statistics of all R padded rows, as one for the n packed rows.

        It may not ask for pooled blocks.
        """
        vectors = np.zeros((len(wanted.vectors), self.n), np.float32)
        for vector, of_rows in zip(vectors, wanted.vectors, strict=True):
            vector[: len(self.places)] = of_rows[self.places]
        return replace(wanted, key_sets=tuple(map(self._packed_keys, wanted.key_sets)), vectors=tuple(vectors))

    def _packed_keys(self, keys: np.ndarray) -> np.ndarray:
        packed, mine = np.full((self.n, keys.shape[1]), -1, np.int32), keys[self.places]
        packed[: len(mine)] = np.where(mine < 0, -1, mine - self._ahead[:, None])
        return packed

    def stats(self, stats: RowStats, wanted: Wanted) -> RowStats:
        """The statistics of the T packed rows as an answer to the request `wanted` for R padded rows, 0 in padding."""
        of_rows: dict[str, Any] = {
            field.name: self._padded(getattr(stats, field.name))
            for field in fields(stats)
            if field.name in _OF_ROWS and getattr(stats, field.name) is not None
        }
        sums = {}
        for each, received in stats.column_sums.items():
            sums[each] = np.zeros((len(received), self.count))
            sums[each][:, self.places] = received[:, : len(self.places)]
        bins = tuple(map(self._padded, stats.distance_sums))
        tops = {top: self._padded_top(ranked) for top, ranked in stats.tops.items()}
        return RowStats(wanted, **of_rows, distance_sums=bins, column_sums=sums, tops=tops)

    def _padded(self, x: np.ndarray) -> np.ndarray:
        """`[h, T, ...]` as `[h, R, ...]`."""
        if len(self.places) == self.count:
            return x
        padded = np.zeros((len(x), self.count, *x.shape[2:]), x.dtype)
        padded[:, self.places] = x
        return padded

    def _padded_top(self, ranked: RankedKeys) -> RankedKeys:
        keys = np.where(ranked.keys >= 0, ranked.keys + self._ahead[:, None], -1)
        padded = np.full((len(keys), self.count, keys.shape[2]), -1)
        padded[:, self.places] = keys
        scores = None if ranked.scores is None else self._padded(ranked.scores)
        return RankedKeys(self._padded(ranked.weights), scores, padded)
