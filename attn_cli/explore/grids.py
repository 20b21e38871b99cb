"""The numbers of a head's matrix as the explorer draws it, whatever is asked of them: blocks, rows, columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.prompt import Token
from attn_cli.recording import RecordedLayer


@dataclass(frozen=True, eq=False)
class Grid:
    """The weights and scores of one head of a recorded layer; `hidden` keys are left blank."""

    layer: RecordedLayer
    head: int
    hidden: Sequence[int] = ()

    @property
    def queries(self) -> Sequence[Token]:
        """The tokens of its rows."""
        return self.layer.queries

    @property
    def keys(self) -> Sequence[Token]:
        """The tokens of its columns."""
        return self.layer.keys

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """Weights, or with `scores` scores, of these queries and keys `[rows, keys]`; NaN where masked or hidden."""
        cells = (self.layer.scores if scores else self.layer.weights)(self.head, rows, keys)
        cells = np.where(self.layer.allowed(rows, keys), cells, np.nan)
        cells[:, [key - keys.start for key in self.hidden if keys.start <= key < keys.stop]] = np.nan
        return cells

    def pooled(self, rows: slice, keys: slice, block: tuple[int, int], *, scores: bool = False) -> np.ndarray:
        """Of each block of (queries, keys) what a row gives to its keys, mean; of scores that farthest from 0."""
        cells = self.cells(rows, keys, scores=scores)
        if block == (1, 1):
            return cells
        highest = _blocks(np.fmax, cells, block)
        if scores:
            lowest = _blocks(np.fmin, cells, block)
            return np.where(np.abs(highest) >= np.abs(lowest), highest, lowest)
        sums = _blocks(np.add, np.where(np.isnan(cells), 0, cells), block)
        counts = _blocks(np.add, np.ones((len(cells), 1)), (block[0], 1))
        return np.where(np.isnan(highest), np.nan, sums / counts)


def _blocks(largest: np.ufunc, cells: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    for axis, step in enumerate(block):
        if step > 1:
            cells = largest.reduceat(cells, np.arange(0, cells.shape[axis], step), axis=axis)
    return cells
