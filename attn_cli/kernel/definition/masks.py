"""Masks: may query i attend to key j? Computed cell by cell, so that no n x m mask is ever stored.

`allowed` takes index arrays i `[b, 1]` and j `[1, c]` and returns booleans `[b, c]` or `[h, b, c]`, True where query i
may attend to key j. `span` says which keys a run of queries can see at all, so that a band stops at the diagonal.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, Protocol

from attn_cli.arrays import Array, indices, namespace


class Span(NamedTuple):
    """The keys that a run of queries can see.

    Keys outside `first:last` are masked for every one of the queries; keys in `open_first:open_last` are allowed
    for every one of them, so that `allowed` is needed for the rest of `first:last` only.
    """

    first: int
    open_first: int
    open_last: int
    last: int


class Mask(Protocol):
    """The interface of masks; shapes are in the module's docstring."""

    def allowed(self, i: Array, j: Array) -> Array:
        """True if query i may attend to key j."""

    def span(self, start: int, stop: int, m: int) -> Span:
        """The keys, of m, that queries start .. stop - 1 may attend to."""

    def __str__(self) -> str:
        """A few words for headers, such as "causal"."""


@dataclass(frozen=True)
class Open:
    """Every query may attend to every key."""

    def allowed(self, i: Array, j: Array) -> Array:
        """True everywhere."""
        return (i == i) & (j == j)

    def span(self, start: int, stop: int, m: int) -> Span:
        """All keys, all open."""
        return Span(0, 0, m, m)

    def __str__(self) -> str:
        return "no mask"


@dataclass(frozen=True)
class Causal:
    """Query i may attend to keys 0 .. i + offset.

    `offset` 0 aligns the first query with the first key (top-left); m - n aligns the last with the last
    (bottom-right), which is what decoding with a cache of m - n past keys means.

    >>> import numpy as np
    >>> dense(Causal(), 3, 3, like=np.empty(0)).astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """

    offset: int = 0

    def allowed(self, i: Array, j: Array) -> Array:
        """Where j is not after i + offset."""
        return j <= i + self.offset

    def span(self, start: int, stop: int, m: int) -> Span:
        """Up to the diagonal; open below it."""
        last = min(max(stop + self.offset, 0), m)
        return Span(0, 0, min(max(start + self.offset + 1, 0), last), last)

    def __str__(self) -> str:
        return "causal" if self.offset == 0 else f"causal, offset {self.offset}"


@dataclass(frozen=True)
class Window:
    """Query i sees the `size` keys that end at i + offset, itself included (and, if `both_sides`, as many after it).

    The one-sided form is the usual sliding window once it is combined with `Causal`: i + offset - size < j.

    >>> import numpy as np
    >>> dense(Window(2), 3, 3, like=np.empty(0)).astype(int).tolist()
    [[1, 1, 1], [1, 1, 1], [0, 1, 1]]
    """

    size: int
    offset: int = 0
    both_sides: bool = False

    def allowed(self, i: Array, j: Array) -> Array:
        """Where j is less than `size` before i + offset."""
        near = j > i + (self.offset - self.size)
        return near & (j < i + (self.offset + self.size)) if self.both_sides else near

    def span(self, start: int, stop: int, m: int) -> Span:
        """From the edge of the first query's window."""
        first = _within(start + self.offset - self.size + 1, 0, m)
        open_first = _within(stop + self.offset - self.size, first, m)
        if not self.both_sides:
            return Span(first, open_first, m, m)
        last = _within(stop + self.offset + self.size - 1, first, m)
        open_last = _within(start + self.offset + self.size, open_first, last)
        return Span(first, min(open_first, open_last), open_last, last)

    def __str__(self) -> str:
        return f"window {self.size}" + (" on both sides" if self.both_sides else "")


@dataclass(frozen=True)
class Dilated:
    """Query i sees `size` keys before and `size` after it, itself counted in both, each `gap` keys from the next.

    That is i + offset - t * gap for t from -(size - 1) to size - 1: a window on both sides with holes, as Longformer
    has (Beltagy et al. 2020, section 3.1). With gap 1 it is a window; combined with `Causal`, the keys before remain.

    >>> import numpy as np
    >>> dense(Dilated(2, 2), 4, 4, like=np.empty(0)).astype(int).tolist()
    [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]
    """

    size: int
    gap: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.gap < 1:
            raise ValueError(f"keys {self.gap} apart")

    def allowed(self, i: Array, j: Array) -> Array:
        """Where j is a whole number of gaps, less than `size`, from i + offset."""
        distance = i + self.offset - j
        reach = self.size * self.gap
        return (distance % self.gap == 0) & (distance < reach) & (distance > -reach)

    def span(self, start: int, stop: int, m: int) -> Span:
        """From the first key that any of the queries sees to the last; neighbouring queries share no key."""
        if self.gap == 1:
            return Window(self.size, self.offset, both_sides=True).span(start, stop, m)
        reach = (self.size - 1) * self.gap
        ends = []
        for i in range(start + self.offset, stop + self.offset):
            first = i - reach if i >= reach else (i - reach) % self.gap
            last = m - 1 - (m - 1 - i - reach) % self.gap if i + reach >= m else i + reach
            if first <= last:
                ends.append((first, last))
        if not ends:
            return Span(0, 0, 0, 0)
        first = min(first for first, _ in ends)
        return Span(first, first, first, max(last for _, last in ends) + 1)

    def __str__(self) -> str:
        return f"window {self.size} of keys {self.gap} apart on both sides"


@dataclass(frozen=True)
class Prefix:
    """The first `length` keys are open to every query, the others causally (prefix LM, Raffel et al. 2020).

    >>> import numpy as np
    >>> dense(Prefix(2), 3, 4, like=np.empty(0)).astype(int).tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]
    """

    length: int
    offset: int = 0

    def allowed(self, i: Array, j: Array) -> Array:
        """Where j is in the prefix, or not after i + offset."""
        return (j < self.length) | (j <= i + self.offset)

    def span(self, start: int, stop: int, m: int) -> Span:
        """Up to the diagonal or the end of the prefix, whichever is further."""
        last = _within(max(stop + self.offset, self.length), 0, m)
        return Span(0, 0, _within(max(start + self.offset + 1, self.length), 0, last), last)

    def __str__(self) -> str:
        return f"prefix {self.length}" + (f", offset {self.offset}" if self.offset else "")


@dataclass(frozen=True, eq=False)
class Keys:
    """Only some keys are real: booleans `real [m]`, False at padding."""

    real: Array

    def allowed(self, i: Array, j: Array) -> Array:
        """Where key j is real."""
        return self.real[j[0, :]][None, :] & (i == i)

    def span(self, start: int, stop: int, m: int) -> Span:
        """From the first real key to the last; open if all keys between them are real, too."""
        xp = namespace(self.real)
        where = xp.nonzero(self.real)[0]
        if where.shape[0] == 0:
            return Span(0, 0, 0, 0)
        first, last = int(where[0]), int(where[-1]) + 1
        solid = int(where.shape[0]) == last - first
        return Span(first, first, last if solid else first, last)

    def __str__(self) -> str:
        return "padding"


@dataclass(frozen=True, eq=False)
class Given:
    """A mask given as booleans `[n, m]` or `[h, n, m]`, True where attending is allowed."""

    cells: Array
    words: str = "given mask"

    def allowed(self, i: Array, j: Array) -> Array:
        """The booleans of these cells."""
        return self.cells[..., _places(i[:, 0]), :][..., _places(j[0, :])]

    def span(self, start: int, stop: int, m: int) -> Span:
        """All keys, none known to be open: the mask is small enough to be read cell by cell."""
        return Span(0, 0, 0, m)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, eq=False)
class MaskFunction:
    """A mask that is any elementwise function of (i, j), as flex attention and transformers write them."""

    function: Callable[[Array, Array], Array]
    words: str = "mask function"

    def allowed(self, i: Array, j: Array) -> Array:
        """The values of the function, broadcast to all cells."""
        return self.function(i, j) & (i == i) & (j == j)

    def span(self, start: int, stop: int, m: int) -> Span:
        """All keys, none known to be open: only every cell's value tells where a function is True."""
        return Span(0, 0, 0, m)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class Intersection:
    """Several masks at once: a cell is allowed if every one of them allows it."""

    masks: tuple[Mask, ...]

    def allowed(self, i: Array, j: Array) -> Array:
        """Where all masks allow it."""
        return reduce(lambda a, b: a & b, [mask.allowed(i, j) for mask in self.masks])

    def span(self, start: int, stop: int, m: int) -> Span:
        """Where the spans overlap."""
        spans = [mask.span(start, stop, m) for mask in self.masks]
        first, last = max(s.first for s in spans), min(s.last for s in spans)
        last = max(first, last)
        open_first = _within(max(s.open_first for s in spans), first, last)
        open_last = _within(min(s.open_last for s in spans), open_first, last)
        return Span(first, open_first, open_last, last)

    def __str__(self) -> str:
        return ", ".join(str(mask) for mask in self.masks)


@dataclass(frozen=True)
class Submask:
    """The part of a mask from row `rows` and column `columns` on, with `keys` columns: one text of a padded batch."""

    mask: Mask
    rows: int
    columns: int
    keys: int

    def allowed(self, i: Array, j: Array) -> Array:
        """The whole mask, `rows` further down and `columns` further right."""
        return self.mask.allowed(i + self.rows, j + self.columns)

    def span(self, start: int, stop: int, m: int) -> Span:
        """The whole mask's span, counted from column `columns`."""
        inner = self.mask.span(start + self.rows, stop + self.rows, self.columns + self.keys)
        return Span(*(_within(edge - self.columns, 0, m) for edge in inner))

    def __str__(self) -> str:
        return str(self.mask)


def all_of(*masks: Mask) -> Mask:
    """One mask that allows what all of `masks` allow, as simple as it can be: `Open` ones are left out."""
    parts: list[Mask] = []
    for mask in masks:
        if isinstance(mask, Intersection):
            parts.extend(mask.masks)
        elif not isinstance(mask, Open):
            parts.append(mask)
    if not parts:
        return Open()
    return parts[0] if len(parts) == 1 else Intersection(tuple(parts))


def dense(mask: Mask, n: int, m: int, *, like: Array) -> Array:
    """The whole mask as booleans `[n, m]` or `[h, n, m]`: the definition, for small matrices."""
    return mask.allowed(indices(0, n, like)[:, None], indices(0, m, like)[None, :])


def _places(numbers: Array) -> Array | slice:
    """Ascending numbers `[b]` as a slice where none is left out: a slice copies nothing."""
    count = numbers.shape[0]
    if count == 0:
        return slice(0, 0)
    first, last = int(numbers[0]), int(numbers[-1]) + 1
    return slice(first, last) if last - first == count else numbers


def _within(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)
