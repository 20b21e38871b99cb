"""The visible keys of every query, by the mask alone: a key whose weight underflows to 0 is visible."""

from collections.abc import Iterator

import numpy as np

from attn_cli.arrays import Array, indices, to_numpy
from attn_cli.kernel.definition.mask import Ends, Mask, intervals

_CELLS = 2**22  # of a mask at a time


class Sight:
    """The keys that each of n queries may see, of m: from `first` to before `last`; `count` of them `[n]`."""

    def __init__(self, seen: Ends, m: int) -> None:
        self.first, self.last = seen.first.astype(np.int64), np.maximum(seen.first, seen.last).astype(np.int64)
        self.m, self.count = m, self.last - self.first

    def sees(self, keys: np.ndarray) -> np.ndarray:
        """For each of n queries and each of its c keys `[n, c]`, True if it may see the key; False for key -1."""
        return (keys >= np.maximum(self.first, 0)[:, None]) & (keys < self.last[:, None])

    def along_rows(self, of_keys: np.ndarray) -> np.ndarray:
        """For each query the sum of `of_keys` `[m]` over the keys that it sees, `[n]`."""
        sums = np.concatenate([[0.0], np.cumsum(of_keys)])
        return sums[self.last] - sums[self.first]

    def along_columns(self, of_rows: np.ndarray) -> np.ndarray:
        """For each key the sum of `of_rows` `[n]` over the queries that see it, `[m]`."""
        steps = np.zeros(self.m + 1)
        np.add.at(steps, self.first, of_rows)
        np.subtract.at(steps, self.last, of_rows)
        return np.cumsum(steps)[: self.m]

    def uniform(self, of_rows: np.ndarray) -> np.ndarray:
        """What each key gets `[m]` if each query shares its number of `of_rows` `[n]` evenly among the keys it sees."""
        return self.along_columns(of_rows / np.maximum(self.count, 1))


class MaskSight(Sight):
    """Which keys each query may see by any mask, some rows at a time; where heads differ, in any head."""

    def __init__(self, mask: Mask, n: int, m: int, like: Array) -> None:
        self.mask, self.n, self.m, self.like = mask, n, m, like
        self.count = self.along_rows(np.ones(m, dtype=int))

    def sees(self, keys: np.ndarray) -> np.ndarray:
        """As that of `Sight`."""
        seen = np.zeros(keys.shape, dtype=bool)
        for rows, cells in self._cells():
            seen[rows] = np.take_along_axis(cells, np.maximum(keys[rows], 0), axis=1) & (keys[rows] >= 0)
        return seen

    def along_rows(self, of_keys: np.ndarray) -> np.ndarray:
        """As that of `Sight`."""
        return np.concatenate([of_keys[:0], *(cells @ of_keys for _, cells in self._cells())])

    def along_columns(self, of_rows: np.ndarray) -> np.ndarray:
        """As that of `Sight`."""
        return sum((of_rows[rows] @ cells for rows, cells in self._cells()), start=np.zeros(self.m))

    def _cells(self) -> Iterator[tuple[slice, np.ndarray]]:
        step, j = max(1, _CELLS // max(1, self.m)), indices(0, self.m, self.like)[None]
        for start in range(0, self.n, step):
            rows = slice(start, min(start + step, self.n))
            cells = to_numpy(self.mask.allowed(indices(start, rows.stop, self.like)[:, None], j))
            of_any_head = cells.any(axis=0) if cells.ndim == 3 else cells
            yield rows, np.broadcast_to(of_any_head, (rows.stop - start, self.m))


def sight_of(mask: Mask, n: int, m: int, like: Array, seen: Ends | None = None) -> Sight:
    """Which of m keys each of n queries may see by `mask`, or as `seen`; `like` is an array of the mask's library."""
    seen = intervals(mask, n, m) if seen is None else seen
    return MaskSight(mask, n, m, like) if seen is None else Sight(seen, m)
