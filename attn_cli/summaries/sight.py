"""Which keys every query may see, by the mask and not by weights, which underflow: all chances are made of this."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from attn_cli.arrays import Array, indices, to_numpy
from attn_cli.kernel.definition.masks import Mask
from attn_cli.kernel.walk.intervals import Intervals

_CELLS = 2**22  # of a mask at a time


class Sight(ABC):
    """What n queries may see of m keys.

    count  how many keys each query may see `[n]`
    """

    count: np.ndarray

    @abstractmethod
    def sees(self, keys: np.ndarray) -> np.ndarray:
        """Whether each query may see each of its keys `[n, c]`; False for -1."""

    @abstractmethod
    def along_rows(self, of_keys: np.ndarray) -> np.ndarray:
        """For each query the sum of `of_keys` `[m]` over the keys that it sees, `[n]`."""

    @abstractmethod
    def along_columns(self, of_rows: np.ndarray) -> np.ndarray:
        """For each key the sum of `of_rows` `[n]` over the queries that see it, `[m]`."""


class IntervalSight(Sight):
    """Every query sees the keys from one place to another.

    >>> sight = IntervalSight(Intervals(np.array([0, 0, 1]), np.array([1, 2, 3])), 3)
    >>> sight.along_rows(np.array([1, 10, 100])).tolist(), sight.along_columns(np.ones(3)).tolist()
    ([1.0, 11.0, 110.0], [2.0, 2.0, 1.0])
    """

    def __init__(self, seen: Intervals, m: int) -> None:
        self.first, self.last = seen.first.astype(np.int64), np.maximum(seen.first, seen.last).astype(np.int64)
        self.m = m
        self.count = self.last - self.first

    def sees(self, keys: np.ndarray) -> np.ndarray:
        """Keys between the ends."""
        return (keys >= np.maximum(self.first, 0)[:, None]) & (keys < self.last[:, None])

    def along_rows(self, of_keys: np.ndarray) -> np.ndarray:
        """Differences of a running sum."""
        sums = np.concatenate([[0.0], np.cumsum(of_keys)])
        return sums[self.last] - sums[self.first]

    def along_columns(self, of_rows: np.ndarray) -> np.ndarray:
        """A running sum of what begins and ends at each key."""
        steps = np.zeros(self.m + 1)
        np.add.at(steps, self.first, of_rows)
        np.subtract.at(steps, self.last, of_rows)
        return np.cumsum(steps)[: self.m]


class MaskSight(Sight):
    """Any mask, some rows at a time; one that differs between heads is seen where one of them sees."""

    def __init__(self, mask: Mask, n: int, m: int, like: Array) -> None:
        self.mask, self.n, self.m, self.like = mask, n, m, like
        self.count = np.concatenate([np.zeros(0, int), *(cells.sum(axis=1) for _, cells in self._rows())])

    def sees(self, keys: np.ndarray) -> np.ndarray:
        """The mask's cells at these keys."""
        seen = np.zeros(keys.shape, dtype=bool)
        for rows, cells in self._rows():
            seen[rows] = np.take_along_axis(cells, np.maximum(keys[rows], 0), axis=1) & (keys[rows] >= 0)
        return seen

    def along_rows(self, of_keys: np.ndarray) -> np.ndarray:
        """A product of the mask's cells."""
        return np.concatenate([np.zeros(0), *(cells @ of_keys for _, cells in self._rows())])

    def along_columns(self, of_rows: np.ndarray) -> np.ndarray:
        """A product of the mask's cells."""
        return sum((of_rows[rows] @ cells for rows, cells in self._rows()), start=np.zeros(self.m))

    def _rows(self) -> Iterator[tuple[slice, np.ndarray]]:
        """The mask's cells `[b, m]`, some rows at a time."""
        step, j = max(1, _CELLS // max(1, self.m)), indices(0, self.m, self.like)[None]
        for start in range(0, self.n, step):
            rows = slice(start, min(start + step, self.n))
            cells = to_numpy(self.mask.allowed(indices(start, rows.stop, self.like)[:, None], j))
            of_any_head: np.ndarray = np.asarray(cells.any(axis=0) if cells.ndim == 3 else cells)
            yield rows, np.broadcast_to(of_any_head, (rows.stop - start, self.m))
