"""Masks whose rows are intervals: query i may attend to keys first[i] .. last[i] - 1, and to no others."""

from typing import NamedTuple

import numpy as np

from attn_cli.arrays import Array, to_numpy
from attn_cli.kernel.definition.masks import Causal, Given, Intersection, Keys, Mask, Open, Prefix, Submask, Window


class Intervals(NamedTuple):
    """The keys of every query: from `first` up to and without `last`, both `[n]`; none where last <= first."""

    first: np.ndarray
    last: np.ndarray


def intervals(mask: Mask, n: int, m: int) -> Intervals | None:
    """The intervals of a mask on n queries and m keys; None for a mask with holes, or one that nobody knows.

    >>> first, last = intervals(Intersection((Causal(), Window(2))), 4, 4)
    >>> list(zip(first.tolist(), last.tolist()))
    [(0, 1), (0, 2), (1, 3), (2, 4)]
    """
    bounds = _bounds(mask, np.arange(n), m)
    return None if bounds is None else Intervals(*(np.clip(bound, 0, m).astype(np.int32) for bound in bounds))


def _bounds(mask: Mask, i: np.ndarray, m: int) -> Intervals | None:
    """The same for queries i of a mask that knows m keys, with bounds that may lie beyond them."""
    nothing, everything = np.zeros_like(i), np.full_like(i, m)
    match mask:
        case Open():
            return Intervals(nothing, everything)
        case Causal(offset):
            return Intervals(nothing, i + offset + 1)
        case Window(size, offset, both_sides):
            return Intervals(i + offset - size + 1, i + offset + size if both_sides else everything)
        case Prefix(length, offset):
            return Intervals(nothing, np.maximum(i + offset + 1, length))
        case Keys(real):
            places = np.flatnonzero(to_numpy(real))
            if len(places) == 0:
                return Intervals(nothing, nothing)
            first, last = int(places[0]), int(places[-1]) + 1
            return Intervals(nothing + first, nothing + last) if last - first == len(places) else None
        case Given(cells):
            return _bounds_of_cells(cells, i)
        case Intersection(masks):
            parts = [bounds for part in masks if (bounds := _bounds(part, i, m)) is not None]
            if len(parts) < len(masks):
                return None
            return Intervals(
                np.maximum.reduce([bounds.first for bounds in parts]),
                np.minimum.reduce([bounds.last for bounds in parts]),
            )
        case Submask(inner, rows, columns, _):
            bounds = _bounds(inner, i + rows, m + columns)
            return None if bounds is None else Intervals(bounds.first - columns, bounds.last - columns)
    return None


def _bounds_of_cells(cells: Array, i: np.ndarray) -> Intervals | None:
    """The bounds of rows i of booleans `[n, m]` or `[h, n, m]`; None where heads have their own, or a row has holes."""
    if (
        len(i) == 0
        or i[0] < 0
        or i[-1] >= cells.shape[-2]
        or cells.shape[-1] == 0
        or (cells.ndim == 3 and len(cells) > 1)
    ):
        return None
    rows = to_numpy(cells[0] if cells.ndim == 3 else cells)[i[0] : i[-1] + 1]
    first, last = ends_of(rows)
    return Intervals(first, last) if bool((last - first == np.count_nonzero(rows, axis=-1)).all()) else None


def ends_of(cells: np.ndarray) -> Intervals:
    """The first True of each row of `[b, m]`, and the place after the last; 0 and 0 where there is none."""
    live = cells.any(axis=-1)
    last = cells.shape[-1] - cells[:, ::-1].argmax(axis=-1)
    return Intervals(cells.argmax(axis=-1), np.where(live, last, 0))  # argmax of all False is 0
