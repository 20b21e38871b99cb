"""Picked query rows: which rows of a band a reducer keeps, and where it stores them."""

from collections.abc import Sequence

import numpy as np

from attn_cli.kernel.bands.band import Band

RowIndex = slice | list[int]
"""An index of rows of an array; a slice where they are adjacent."""


class RowPlaces:
    """The places of some ascending query rows, None for all n, in an array that stores these alone."""

    def __init__(self, rows: Sequence[int] | None, n: int) -> None:
        self.rows = None if rows is None else np.array(rows, dtype=np.int64)
        self.count = n if self.rows is None else len(self.rows)

    def of(self, band: Band) -> tuple[RowIndex, slice]:
        """The picked rows of `band`, as indices into its rows, [] for none, and into the array of all picked rows."""
        if self.rows is None:
            return slice(0, band.stop - band.start), slice(band.start, band.stop)
        first, last = np.searchsorted(self.rows, (band.start, band.stop)).tolist()
        inside = (self.rows[first:last] - band.start).tolist()
        are_adjacent = inside and inside[-1] - inside[0] == len(inside) - 1
        return slice(inside[0], inside[-1] + 1) if are_adjacent else inside, slice(first, last)
