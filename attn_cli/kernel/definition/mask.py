"""Masks: may query i attend to key j? Computed cell by cell, so that no n x m mask is ever stored."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from attn_cli.arrays import Array, indices, to_numpy


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


@dataclass(frozen=True, eq=False)
class Mask:
    """Which keys each query sees: those of a band about it, less some keys, less some cells; by default all.

    Query i sees the keys j with i - before < j, and j < i + after or j < prefix; None is without an end. Besides, all
    `parts` must allow a key: masks made of others have nothing of their own.

    kind, numbers  what the mask was made as: "causal", "window" ..., and its numbers as they were given
    keys           booleans `[m]`, False at keys that nobody sees
    cells          booleans `[n, m]` or `[h, n, m]`, or a function of i `[b, 1]` and j `[1, c]` that gives such
    """

    kind: str = "no mask"
    numbers: tuple[int, ...] = ()
    before: int | None = None
    after: int | None = None
    prefix: int = 0
    keys: Array | None = None
    cells: Array | Callable[[Array, Array], Array] | None = None
    parts: tuple["Mask", ...] = ()

    @property
    def is_open(self) -> bool:
        """True if every query sees every key, whatever their numbers."""
        own = (self.before, self.after, self.keys, self.cells)
        return all(x is None for x in own) and all(part.is_open for part in self.parts)

    def allowed(self, i: Array, j: Array) -> Array:
        """True where query i `[b, 1]` may attend to key j `[1, c]`, booleans `[b, c]` or `[h, b, c]`."""
        seen = [part.allowed(i, j) for part in self.parts]
        if self.before is not None:
            seen.append(j > i - self.before)
        if self.after is not None:
            seen.append(j < i + self.after)
            seen[-1] = seen[-1] | (j < self.prefix) if self.prefix else seen[-1]
        if self.keys is not None:
            seen.append(self.keys[j[0, :]][None, :] & (i == i))
        if callable(self.cells):
            seen.append(self.cells(i, j) & (i == i) & (j == j))
        elif self.cells is not None:
            seen.append(self.cells[..., _places(i[:, 0]), :][..., _places(j[0, :])])
        return reduce(lambda a, b: a & b, seen) if seen else (i == i) & (j == j)

    def interval(self, i: np.ndarray, m: int) -> Ends | None:
        """The keys that queries i `[b]` (ascending, no gaps) may see, of m, as first and end `[b]`.

        None if the keys of some row have holes, or differ by head. Both may lie outside the m keys.
        """
        ends = [*self._ends(i, m), *(part.interval(i, m) for part in self.parts)]
        known = [each for each in ends if each is not None]
        if len(known) < len(ends):
            return None
        return Ends(np.maximum.reduce([each.first for each in known]), np.minimum.reduce([each.last for each in known]))

    def span(self, start: int, stop: int, m: int) -> Span:
        """The keys, of m, that some or all of the queries start .. stop - 1 may see."""
        spans = [_span_of(ends, m) for ends in self._ends(np.arange(start, stop), m)]
        spans += [part.span(start, stop, m) for part in self.parts]
        first, last = max(x.first for x in spans), min(x.last for x in spans)
        last = max(first, last)
        open_first = min(max(first, *(x.open_first for x in spans)), last)
        return Span(first, open_first, min(max(open_first, min(x.open_last for x in spans)), last), last)

    def _ends(self, i: np.ndarray, m: int) -> Iterator[Ends | None]:
        """The ends of the band, and of its own `keys` and `cells`; None where these have holes."""
        first = np.zeros_like(i) if self.before is None else i - self.before + 1
        yield Ends(first, np.full_like(i, m) if self.after is None else np.maximum(i + self.after, self.prefix))
        if self.keys is not None:
            real = np.flatnonzero(to_numpy(self.keys))
            begin, end = (int(real[0]), int(real[-1]) + 1) if real.size else (0, 0)
            yield Ends(np.full_like(i, begin), np.full_like(i, end)) if end - begin == real.size else None
        if self.cells is not None:
            yield None if callable(self.cells) else _ends_of_cells(self.cells, i)

    def part(self, rows: int, columns: int, keys: int) -> "Mask":
        """The mask of the rows from `rows` on and of so many `keys` from `columns` on, numbered from 0 again."""
        if (rows == columns == 0 and self.keys is None) or self.is_open:
            return self
        cells, moved = self.cells, rows - columns
        if callable(cells):
            function = cells
            cells = lambda i, j: function(i + rows, j + columns)  # noqa: E731
        elif cells is not None:
            cells = cells[..., rows:, columns : columns + keys]
        return replace(
            self,
            before=None if self.before is None else self.before - moved,
            after=None if self.after is None else self.after + moved,
            prefix=max(self.prefix - columns, 0),
            keys=None if self.keys is None else self.keys[columns : columns + keys],
            cells=cells,
            parts=tuple(part.part(rows, columns, keys) for part in self.parts),
        )

    def __str__(self) -> str:  # for headers
        if self.parts:
            return ", ".join(map(str, self.parts))
        match self.kind, self.numbers:
            case "causal", (offset,):
                return f"causal, offset {offset}" if offset else "causal"
            case "window", (size, _):
                return f"window {size}" + (" on both sides" if self.after is not None else "")
            case "dilated", (size, gap, _):
                return f"window {size} of keys {gap} apart on both sides"
            case "prefix", (length, offset):
                return f"prefix {length}" + (f", offset {offset}" if offset else "")
        return self.kind


def causal(offset: int = 0) -> Mask:
    """Query i may attend to keys 0 .. i + offset.

    `offset` 0 aligns the first query with the first key (top-left); m - n aligns the last with the last
    (bottom-right), which is what decoding with a cache of m - n past keys means.

    >>> dense(causal(), 3, 3, like=np.empty(0)).astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    return Mask("causal", (offset,), after=offset + 1)


def window(size: int, offset: int = 0, *, both_sides: bool = False) -> Mask:
    """A sliding window: query i sees no key that is `size` or more before i + offset.

    Keys after it are all seen, unless `both_sides`: then none that is `size` or more after i + offset. The one-sided
    form is the usual causal window once it is combined with `causal`: i + offset - size < j <= i + offset.

    >>> dense(window(2), 3, 3, like=np.empty(0)).astype(int).tolist()
    [[1, 1, 1], [1, 1, 1], [0, 1, 1]]
    """
    return Mask("window", (size, offset), before=size - offset, after=offset + size if both_sides else None)


def dilated(size: int, gap: int, offset: int = 0) -> Mask:
    """Query i sees `size` keys before and `size` after it, itself counted in both, each `gap` keys from the next.

    That is i + offset - t * gap for t from -(size - 1) to size - 1, as in Longformer (Beltagy et al. 2020, 3.1).
    Combined with `causal`, the keys before remain.
    """
    if gap < 1:
        raise ValueError(f"keys {gap} apart")
    reach = (size - 1) * gap + 1
    cells = None if gap == 1 else lambda i, j: (i + offset - j) % gap == 0
    return Mask("dilated", (size, gap, offset), before=reach - offset, after=offset + reach, cells=cells)


def prefix(length: int, offset: int = 0) -> Mask:
    """A prefix LM's mask (Raffel et al. 2020): query i sees the first `length` keys, and keys 0 .. i + offset."""
    return Mask("prefix", (length, offset), after=offset + 1, prefix=length)


def padding(real: Array) -> Mask:
    """Only some keys are real: booleans `real [m]`, False at padding."""
    return Mask("padding", keys=real)


def given_mask(cells: Array, words: str = "given mask") -> Mask:
    """A mask given as booleans `[n, m]` or `[h, n, m]`, True where a query may attend to a key."""
    return Mask(words, cells=cells)


def mask_function(function: Callable[[Array, Array], Array], words: str = "mask function") -> Mask:
    """A mask that is any elementwise function of (i, j), as flex attention and transformers write them."""
    return Mask(words, cells=function)


def all_of(*masks: Mask) -> Mask:
    """One mask that allows what all of `masks` allow, as simple as it can be: without open ones, and each once."""
    every = [part for mask in masks for part in (mask.parts or (mask,)) if not part.is_open]
    parts = [*{(x.kind, x.numbers, x.before, x.after) if x.numbers else id(x): x for x in every}.values()]
    return Mask() if not parts else parts[0] if len(parts) == 1 else Mask(parts=tuple(parts))


def intervals(mask: Mask, n: int, m: int) -> Ends | None:
    """The keys that each of n queries may see, of m, as first and end `[n]` in int32; None where a row has holes."""
    ends = mask.interval(np.arange(n), m)
    return None if ends is None else Ends(*(np.clip(x, 0, m).astype(np.int32) for x in ends))


def dense(mask: Mask, n: int, m: int, *, like: Array) -> Array:
    """The whole mask `[n, m]` or `[h, n, m]`, True where allowed, in the library and on the device of `like`."""
    return mask.allowed(indices(0, n, like)[:, None], indices(0, m, like)[None, :])


def _span_of(ends: Ends | None, m: int) -> Span:
    if ends is None:
        return Span(0, 0, 0, m)
    first, last = (np.clip(x, 0, m) for x in ends)
    live = first < last
    if not live.any():
        return Span(0, 0, 0, 0)
    begin, end, open_first, open_last = int(first[live].min()), int(last[live].max()), int(first.max()), int(last.min())
    if not live.all() or open_first > open_last:
        return Span(begin, begin, begin, end)
    return Span(begin, open_first, open_last, end)


def _ends_of_cells(cells: Array, i: np.ndarray) -> Ends | None:
    outside = len(i) == 0 or i[0] < 0 or i[-1] >= cells.shape[-2]
    if outside or 0 in cells.shape or cells.shape[:-2] not in ((), (1,)):
        return None
    rows = to_numpy(cells[0, ...] if cells.ndim == 3 else cells)[i[0] : i[-1] + 1]
    live = rows.any(axis=-1)
    first = rows.argmax(axis=-1)  # 0 of all False
    last = np.where(live, rows.shape[-1] - rows[:, ::-1].argmax(axis=-1), 0)
    return Ends(first, last) if bool((last - first == np.count_nonzero(rows, axis=-1)).all()) else None


def _places(numbers: Array) -> Array | slice:
    count = numbers.shape[0]
    if count == 0:
        return slice(0, 0)
    first, last = int(numbers[0]), int(numbers[-1]) + 1
    return slice(first, last) if last - first == count else numbers
