"""The masks that there are: causal, windows, padding, given cells, and what is made of several."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from attn_cli.arrays import Array, to_numpy
from attn_cli.kernel.definition.mask import Ends, Mask, Span, ends_of


@dataclass(frozen=True)
class Open(Mask):
    """Every query may attend to every key."""

    def allowed(self, i: Array, j: Array) -> Array:
        """True for every query i `[b, 1]` and key j `[1, c]`: booleans `[b, c]`."""
        return (i == i) & (j == j)

    def interval(self, i: np.ndarray, m: int) -> Ends:
        """The interval of every query: all m keys."""
        return Ends(np.zeros_like(i), np.full_like(i, m))

    def __str__(self) -> str:
        return "no mask"


@dataclass(frozen=True)
class Causal(Mask):
    """Query i may attend to keys 0 .. i + offset.

    `offset` 0 aligns the first query with the first key (top-left); m - n aligns the last with the last
    (bottom-right), which is what decoding with a cache of m - n past keys means.

    >>> from attn_cli.kernel.definition.mask import dense
    >>> dense(Causal(), 3, 3, like=np.empty(0)).astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """

    offset: int = 0

    def allowed(self, i: Array, j: Array) -> Array:
        """True where key j `[1, c]` is not after query i's position i + offset, i `[b, 1]`: booleans `[b, c]`."""
        return j <= i + self.offset

    def interval(self, i: np.ndarray, m: int) -> Ends:
        """For every query i `[b]` the keys 0 up to and with i + offset, of m, as first and end `[b]`."""
        return Ends(np.zeros_like(i), i + self.offset + 1)

    def __str__(self) -> str:
        return "causal" if self.offset == 0 else f"causal, offset {self.offset}"


@dataclass(frozen=True)
class Window(Mask):
    """A sliding window: query i sees no key that is `size` or more before i + offset.

    Keys after it are all seen, unless `both_sides`: then none that is `size` or more after i + offset. The one-sided
    form is the usual causal window once it is combined with `Causal`: i + offset - size < j <= i + offset.

    >>> from attn_cli.kernel.definition.mask import dense
    >>> dense(Window(2), 3, 3, like=np.empty(0)).astype(int).tolist()
    [[1, 1, 1], [1, 1, 1], [0, 1, 1]]
    """

    size: int
    offset: int = 0
    both_sides: bool = False

    def allowed(self, i: Array, j: Array) -> Array:
        """True where key j `[1, c]` is less than `size` before i + offset, i `[b, 1]`, or anywhere after: `[b, c]`."""
        near = j > i + (self.offset - self.size)
        return near & (j < i + (self.offset + self.size)) if self.both_sides else near

    def interval(self, i: np.ndarray, m: int) -> Ends:
        """For queries i the first key of the window and the end of the last; that is m without `both_sides`."""
        last = i + self.offset + self.size if self.both_sides else np.full_like(i, m)
        return Ends(i + self.offset - self.size + 1, last)

    def __str__(self) -> str:
        return f"window {self.size}" + (" on both sides" if self.both_sides else "")


@dataclass(frozen=True)
class Dilated(Mask):
    """Query i sees `size` keys before and `size` after it, itself counted in both, each `gap` keys from the next.

    That is i + offset - t * gap for t from -(size - 1) to size - 1, as in Longformer (Beltagy et al. 2020, 3.1).
    Combined with `Causal`, the keys before remain.
    """

    size: int
    gap: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.gap < 1:
            raise ValueError(f"keys {self.gap} apart")

    def allowed(self, i: Array, j: Array) -> Array:
        """True `[b, c]` where key j `[1, c]` is less than `size` times `gap` from i + offset, and a multiple of it."""
        distance = i + self.offset - j
        reach = self.size * self.gap
        return (distance % self.gap == 0) & (distance < reach) & (distance > -reach)

    def span(self, start: int, stop: int, m: int) -> Span:
        """From the first key that any of the queries start .. stop - 1 sees to the last; none is seen by all."""
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
class Prefix(Mask):
    """A prefix LM's mask (Raffel et al. 2020): query i sees the first `length` keys, and keys 0 .. i + offset."""

    length: int
    offset: int = 0

    def allowed(self, i: Array, j: Array) -> Array:
        """True where key j `[1, c]` is in the prefix, or not after i + offset, i `[b, 1]`: booleans `[b, c]`."""
        return (j < self.length) | (j <= i + self.offset)

    def interval(self, i: np.ndarray, m: int) -> Ends:
        """For queries i `[b]` the keys 0 to i + offset, or to the prefix's end if that is further, as first and end."""
        return Ends(np.zeros_like(i), np.maximum(i + self.offset + 1, self.length))

    def __str__(self) -> str:
        return f"prefix {self.length}" + (f", offset {self.offset}" if self.offset else "")


@dataclass(frozen=True, eq=False)
class Keys(Mask):
    """Only some keys are real: booleans `real [m]`, False at padding."""

    real: Array

    def allowed(self, i: Array, j: Array) -> Array:
        """True where key j `[1, c]` is real and no padding, for every query i `[b, 1]`: booleans `[b, c]`."""
        return self.real[j[0, :]][None, :] & (i == i)

    def interval(self, i: np.ndarray, m: int) -> Ends | None:
        """For every query the keys, of m, from the first real one to the last; None if one between is padding."""
        first, last, solid = self._ends()
        return Ends(np.full_like(i, first), np.full_like(i, last)) if solid else None

    def span(self, start: int, stop: int, m: int) -> Span:
        """From the first real key (no padding) to the last; all are seen by every query if none between is padding."""
        first, last, solid = self._ends()
        return Span(first, first, last if solid else first, last)

    def _ends(self) -> tuple[int, int, bool]:
        places = np.flatnonzero(to_numpy(self.real))
        if len(places) == 0:
            return 0, 0, True
        first, last = int(places[0]), int(places[-1]) + 1
        return first, last, last - first == len(places)

    def __str__(self) -> str:
        return "padding"


@dataclass(frozen=True, eq=False)
class Given(Mask):
    """A mask given as booleans `[n, m]` or `[h, n, m]`, True where a query may attend to a key."""

    cells: Array
    words: str = "given mask"

    def allowed(self, i: Array, j: Array) -> Array:
        """The booleans of queries i `[b, 1]` and keys j `[1, c]` as they were given, `[b, c]` or `[h, b, c]`."""
        return self.cells[..., _places(i[:, 0]), :][..., _places(j[0, :])]

    def interval(self, i: np.ndarray, m: int) -> Ends | None:
        """For queries i the first allowed key, of m, and the end of the last; None for holes, or if heads differ."""
        cells = self.cells
        if (
            len(i) == 0
            or i[0] < 0
            or i[-1] >= cells.shape[-2]
            or 0 in cells.shape
            or cells.shape[:-2] not in ((), (1,))
        ):
            return None
        rows = to_numpy(cells[0, ...] if cells.ndim == 3 else cells)[i[0] : i[-1] + 1]
        ends = ends_of(rows)
        return ends if bool((ends.last - ends.first == np.count_nonzero(rows, axis=-1)).all()) else None

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, eq=False)
class MaskFunction(Mask):
    """A mask that is any elementwise function of (i, j), as flex attention and transformers write them."""

    function: Callable[[Array, Array], Array]
    words: str = "mask function"

    def allowed(self, i: Array, j: Array) -> Array:
        """The function's value, True where query i `[b, 1]` may attend to key j `[1, c]`, broadcast to `[b, c]`."""
        return self.function(i, j) & (i == i) & (j == j)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class Intersection(Mask):
    """Several masks at once: a query may attend to a key if every one of them allows it."""

    masks: tuple[Mask, ...]

    def allowed(self, i: Array, j: Array) -> Array:
        """True where all masks let query i `[b, 1]` see key j `[1, c]`: booleans `[b, c]` or `[h, b, c]`."""
        return reduce(lambda a, b: a & b, [mask.allowed(i, j) for mask in self.masks])

    def interval(self, i: np.ndarray, m: int) -> Ends | None:
        """For queries i the keys, of m, in all intervals, as first and end `[b]`; None if a mask's rows have holes."""
        parts = [mask.interval(i, m) for mask in self.masks]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return Ends(np.maximum.reduce([part.first for part in known]), np.minimum.reduce([part.last for part in known]))

    def span(self, start: int, stop: int, m: int) -> Span:
        """The keys, of m, that all masks let queries start .. stop - 1 see: those seen by some, and those by all."""
        spans = [mask.span(start, stop, m) for mask in self.masks]
        first, last = max(s.first for s in spans), min(s.last for s in spans)
        last = max(first, last)
        open_first = _within(max(s.open_first for s in spans), first, last)
        open_last = _within(min(s.open_last for s in spans), open_first, last)
        return Span(first, open_first, open_last, last)

    def __str__(self) -> str:
        return ", ".join(str(mask) for mask in self.masks)


@dataclass(frozen=True)
class Submask(Mask):
    """One text's part of a padded batch's mask: from row `rows` and column `columns` on, `keys` columns."""

    mask: Mask
    rows: int
    columns: int
    keys: int

    def allowed(self, i: Array, j: Array) -> Array:
        """The whole mask's booleans `[b, c]` or `[h, b, c]` for i + `rows` `[b, 1]` and j + `columns` `[1, c]`."""
        return self.mask.allowed(i + self.rows, j + self.columns)

    def interval(self, i: np.ndarray, m: int) -> Ends | None:
        """The whole mask's first and end of keys for queries i + `rows`, less `columns`; None for holes in a row."""
        ends = self.mask.interval(i + self.rows, m + self.columns)
        return None if ends is None else Ends(ends.first - self.columns, ends.last - self.columns)

    def span(self, start: int, stop: int, m: int) -> Span:
        """The whole mask's ranges of keys for queries start .. stop - 1 of this part, counted from column `columns`."""
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


def _places(numbers: Array) -> Array | slice:
    count = numbers.shape[0]
    if count == 0:
        return slice(0, 0)
    first, last = int(numbers[0]), int(numbers[-1]) + 1
    return slice(first, last) if last - first == count else numbers


def _within(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)
