"""Masks: may query i attend to key j? Computed cell by cell, so that no n x m mask is ever stored.

`allowed` takes index arrays i `[b, 1]` and j `[1, c]` and returns booleans `[b, c]` or `[h, b, c]`, True where query i
may attend to key j. `interval` says the same of a whole row, where its keys have no holes.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attn_cli.arrays import Array, indices, is_torch, namespace, to_numpy


class Span(NamedTuple):
    """The keys, as ranges of indices, that some adjacent queries can see.

    Every query is masked outside `first:last`, and sees all of `open_first:open_last`.
    """

    first: int
    open_first: int
    open_last: int
    last: int


class Ends(NamedTuple):
    """The keys of each of b queries: from `first` up to and without `last`, both `[b]`; none where last <= first."""

    first: np.ndarray
    last: np.ndarray


class Mask(ABC):
    """Says which query may attend to which key: `allowed`, `interval` for rows without holes, `str` for headers."""

    @abstractmethod
    def allowed(self, i: Array, j: Array) -> Array:
        """True where query i `[b, 1]` may attend to key j `[1, c]`, booleans `[b, c]` or `[h, b, c]`."""

    def interval(self, i: np.ndarray, m: int) -> Ends | None:
        """The keys that queries i `[b]` (ascending, no gaps) may see, of m, as first and end `[b]`.

        None if the keys of some row have holes, or differ by head. Both may lie outside the m keys.
        """
        return None

    def span(self, start: int, stop: int, m: int) -> Span:
        """The keys, of m, that some or all of the queries start .. stop - 1 may see; all m where rows have holes."""
        ends = self.interval(np.arange(start, stop), m)
        return Span(0, 0, 0, m) if ends is None else _span_of(ends, m)

    @abstractmethod
    def __str__(self) -> str:
        """A few words for headers, such as "causal"."""


def _span_of(ends: Ends, m: int) -> Span:
    first, last = (np.clip(x, 0, m) for x in ends)
    live = first < last
    if not live.any():
        return Span(0, 0, 0, 0)
    begin, end, open_first, open_last = int(first[live].min()), int(last[live].max()), int(first.max()), int(last.min())
    if not live.all() or open_first > open_last:
        return Span(begin, begin, begin, end)
    return Span(begin, open_first, open_last, end)


@dataclass(frozen=True, eq=False)
class Intervals(Mask):
    """The keys of every query i by themselves: from first[i] up to and without last[i], both `[n]`.

    So texts are packed: one after the other in one row of tokens, each token sees its own text alone.

    >>> dense(Intervals(np.array([0, 0, 2]), np.array([2, 2, 3])), 3, 3, like=np.empty(0)).astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """

    first: np.ndarray
    last: np.ndarray

    def allowed(self, i: Array, j: Array) -> Array:
        """True where key j `[1, c]` is in the interval of query i `[b, 1]`, booleans `[b, c]`."""
        rows = to_numpy(i[:, 0])
        first, last = (namespace(j).asarray(x[rows, None].astype(np.int64)) for x in (self.first, self.last))
        first, last = (x.to(j.device) if is_torch(j) else x for x in (first, last))
        return (j >= first) & (j < last)

    def interval(self, i: np.ndarray, m: int) -> Ends:
        """For queries i the first key that each may attend to, and the one after the last."""
        return Ends(self.first[i], self.last[i])

    def __str__(self) -> str:
        return "intervals"


def intervals(mask: Mask, n: int, m: int) -> Intervals | None:
    """The keys that each of n queries may see, of m, as first and end `[n]` in int32; None where a row has holes."""
    ends = mask.interval(np.arange(n), m)
    return None if ends is None else Intervals(*(np.clip(x, 0, m).astype(np.int32) for x in ends))


def ends_of(cells: np.ndarray) -> Ends:
    """The first True of each row of `[b, m]`, and the place after the last; 0 and 0 where there is none."""
    live = cells.any(axis=-1)
    last = cells.shape[-1] - cells[:, ::-1].argmax(axis=-1)
    return Ends(cells.argmax(axis=-1), np.where(live, last, 0))  # argmax of all False is 0


def dense(mask: Mask, n: int, m: int, *, like: Array) -> Array:
    """The whole mask `[n, m]` or `[h, n, m]`, True where allowed, in the library and on the device of `like`."""
    return mask.allowed(indices(0, n, like)[:, None], indices(0, m, like)[None, :])
