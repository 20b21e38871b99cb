"""Which rows of a band a reducer keeps, and where they go."""

from collections.abc import Sequence
from typing import NamedTuple

from attn_cli.kernel.walk.band import Band

Rows = slice | list[int]


class Fit(NamedTuple):
    """The wanted rows of one band: positions in the band and in what is kept; slices where they are neighbours."""

    inside: Rows
    kept: Rows


class RowPlaces:
    """Where each asked row stands among the kept ones.

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
        """What of rows start:stop is wanted; None for nothing."""
        if self.places is None:
            return Fit(slice(0, stop - start), slice(start, stop))
        wanted = [row for row in range(start, stop) if row in self.places]
        if not wanted:
            return None
        inside, kept = [row - start for row in wanted], [self.places[row] for row in wanted]
        return Fit(_together(inside), _together(kept))

    def of(self, band: Band) -> Fit | None:
        """What of `band` is wanted."""
        return self.fit(band.start, band.stop)


def _together(places: list[int]) -> Rows:
    if places == list(range(places[0], places[0] + len(places))):
        return slice(places[0], places[0] + len(places))
    return places
