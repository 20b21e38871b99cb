"""Picked query rows: which rows of a band a reducer keeps, and where it stores them."""

from collections.abc import Sequence
from typing import NamedTuple

from attn_cli.kernel.bands.band import Band

RowIndex = slice | list[int]
"""An index of rows of an array; a slice where they are adjacent."""


class Fit(NamedTuple):
    """Where picked rows are among a band's (`inside`) and in an array of them alone (`kept`): slices or lists."""

    inside: RowIndex
    kept: RowIndex


class RowPlaces:
    """The place of each of some query rows in an array that stores these alone: the picked rows.

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
        """The picked ones among the query rows start:stop, as indices; None if there are none."""
        if self.places is None:
            return Fit(slice(0, stop - start), slice(start, stop))
        rows = [row for row in range(start, stop) if row in self.places]
        if not rows:
            return None
        inside, kept = [row - start for row in rows], [self.places[row] for row in rows]
        return Fit(_as_slice(inside), _as_slice(kept))

    def of(self, band: Band) -> Fit | None:
        """The picked rows of `band`, as indices into its rows and into the array of all picked rows; None for none."""
        return self.fit(band.start, band.stop)


def _as_slice(places: list[int]) -> RowIndex:
    if places == list(range(places[0], places[0] + len(places))):
        return slice(places[0], places[0] + len(places))
    return places
