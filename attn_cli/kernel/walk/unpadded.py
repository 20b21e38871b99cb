"""Texts of a batch side by side without the padding between them: where their rows are among those with it.

Readers of a batch count rows and keys with padding, n for every text. A model may have run without it. What is asked
and noted is translated here, so that neither side knows of the other.
"""

from dataclasses import replace

import numpy as np

from attn_cli.arrays import Array, namespace
from attn_cli.kernel.walk.intervals import Intervals
from attn_cli.kernel.walk.row_numbers import NotedRows, RowNeeds, RowNumbers


class Unpadded:
    """T rows without padding, and the place of each among R rows with it.

    places  `[T]`, ascending; -1 for rows of no text, which come last
    rows    R
    """

    def __init__(self, places: np.ndarray, rows: int) -> None:
        self.rows = rows
        self.noted = NotedRows(places.astype(np.int32), rows)
        self._count = int((places >= 0).sum())
        self._places = places[: self._count].astype(np.int64)
        self._ahead = self._places - np.arange(self._count)  # [rows of texts], the same in all rows of a text
        self._padding = np.setdiff1d(np.arange(rows), self._places)
        self._needs: tuple[RowNeeds, RowNeeds] | None = None
        self._span: tuple[Intervals, Intervals] | None = None

    def needs(self, needs: RowNeeds) -> RowNeeds:
        """What is asked of R rows, of these; needs of all rows, without pool or few."""
        if self._needs is None or self._needs[0] is not needs:
            cells = None if needs.cells is None else self._keys(needs.cells)
            marks = None
            if needs.marks is not None:
                marks = np.zeros((len(needs.marks), len(self.noted.places)), np.float32)
                marks[:, : self._count] = needs.marks[:, self._places]
            lists = tuple(self._keys(keys) for keys in needs.lists)
            self._needs = needs, replace(needs, cells=cells, lists=lists, marks=marks, noted=self.noted)
        return self._needs[1]

    def span(self, span: Intervals) -> Intervals:
        """The keys of R rows, of these; rows of no text have none."""
        if self._span is None or self._span[0] is not span:
            bounds = np.zeros((2, len(self.noted.places)), np.int32)
            for bound, of_rows in zip(bounds, span, strict=True):
                bound[: self._count] = of_rows[self._places] - self._ahead
            self._span = span, Intervals(*bounds)
        return self._span[1]

    def _keys(self, keys: np.ndarray) -> np.ndarray:
        """Keys `[R, c]`, -1 for none, as those of these rows `[T, c]`."""
        here = np.full((len(self.noted.places), keys.shape[1]), -1, np.int32)
        mine = keys[self._places]
        here[: self._count] = np.where(mine < 0, -1, mine - self._ahead[:, None])
        return here

    def numbers(self, numbers: RowNumbers) -> RowNumbers:
        """Numbers that were noted at `noted`, with keys counted among the R rows."""
        received, keys = numbers.received, numbers.top_keys
        if received is not None:
            of_rows = np.zeros((len(received), self.rows))
            of_rows[:, self._places] = received[:, : self._count]
            received = of_rows
        if keys is not None:
            ahead, real = np.zeros(self.rows, np.int64), np.zeros(self.rows, bool)
            ahead[self._places], real[self._places] = self._ahead, True
            keys = np.where(real[:, None] & (keys >= 0), keys + ahead[:, None], -1)
        return replace(numbers, received=received, top_keys=keys)

    def with_padding(self, x: Array) -> Array:
        """A tensor `[heads, T, width]` as `[heads, R, width]`, 0 in padding; heads of a row are adjacent in memory."""
        wide = self.memory(x)
        by_row, xp = wide.transpose(0, 1), namespace(x)
        by_row[self._padding] = 0
        by_row.index_copy_(0, xp.asarray(self._places, device=x.device), x.transpose(0, 1)[: self._count])
        return wide

    def memory(self, x: Array) -> Array:
        """Memory for `with_padding` of a tensor, unset."""
        return x.new_empty((self.rows, x.shape[0], x.shape[2])).transpose(0, 1)

    def without_padding(self, x: Array, output: Array) -> None:
        """Write a tensor `[heads, R, width]` into one `[heads, T, width]`, 0 in rows of no text."""
        by_row, xp = output.transpose(0, 1), namespace(x)
        by_row[: self._count] = x.transpose(0, 1).index_select(0, xp.asarray(self._places, device=x.device))
        by_row[self._count :] = 0
