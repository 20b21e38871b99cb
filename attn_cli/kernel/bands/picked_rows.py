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
    """The place of each of some query rows in an array that stores these alone: the picked rows."""

    def __init__(self, rows: Sequence[int] | None, n: int) -> None:
        self.numbers: Sequence[int] = range(n) if rows is None else rows
        self.places = None if rows is None else {row: at for at, row in enumerate(rows)}

    def __len__(self) -> int:
        return len(self.numbers)

    def of(self, band: Band) -> Fit | None:
        """The picked rows of `band`, as indices into its rows and into the array of all picked rows; None for none."""
        if self.places is None:
            return Fit(slice(0, band.stop - band.start), slice(band.start, band.stop))
        rows = [row for row in range(band.start, band.stop) if row in self.places]
        if not rows:
            return None
        inside, kept = [row - band.start for row in rows], [self.places[row] for row in rows]
        return Fit(_as_slice(inside), _as_slice(kept))


def _as_slice(places: list[int]) -> RowIndex:
    if places == list(range(places[0], places[0] + len(places))):
        return slice(places[0], places[0] + len(places))
    return places
