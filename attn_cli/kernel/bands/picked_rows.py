"""Picked query rows: which rows of a band a reducer keeps, and where it stores them."""

from collections.abc import Sequence
from typing import NamedTuple

from attn_cli.kernel.bands.band import Band

RowIndex = slice | list[int]
"""An index of rows of an array; a slice where they are adjacent."""


class Fit(NamedTuple):
    """Which rows of a band were picked: their places `inside` the band, and in the array that stores (`kept`).

    Slices where they are adjacent, lists of indices elsewhere.
    """

    inside: RowIndex
    kept: RowIndex


class RowPlaces:
    """Where each picked query row is in an array that stores the picked rows alone.

    rows  the picked ones, ascending; None for all n

    >>> places = RowPlaces([2, 5, 6], n=8)
    >>> places.fit(4, 7)
    Fit(inside=slice(1, 3, None), kept=slice(1, 3, None))
    """

    def __init__(self, rows: Sequence[int] | None, n: int) -> None:
        self.numbers: Sequence[int] = range(n) if rows is None else rows
        self.places = None if rows is None else {row: at for at, row in enumerate(rows)}

    def __len__(self) -> int:
        return len(self.numbers)

    def fit(self, start: int, stop: int) -> Fit | None:
        """The picked rows among rows start:stop, by their places there and in the array; None if there are none."""
        if self.places is None:
            return Fit(slice(0, stop - start), slice(start, stop))
        rows = [row for row in range(start, stop) if row in self.places]
        if not rows:
            return None
        inside, kept = [row - start for row in rows], [self.places[row] for row in rows]
        return Fit(_as_slice(inside), _as_slice(kept))

    def of(self, band: Band) -> Fit | None:
        """The picked rows of `band`, by their places in it and in the array; None if there are none."""
        return self.fit(band.start, band.stop)


def _as_slice(places: list[int]) -> RowIndex:
    """Adjacent places as a slice, which is faster to index with."""
    if places == list(range(places[0], places[0] + len(places))):
        return slice(places[0], places[0] + len(places))
    return places
