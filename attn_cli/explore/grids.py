"""The numbers of a head's matrix, or of what is made of heads, whatever is asked of them: blocks, rows, columns."""

from collections.abc import Sequence

import numpy as np

from attn_cli.prompt import Token
from attn_cli.recording import LEVELS, MASKED, RecordedLayer
from attn_cli.summaries.calls.in_words import MergedWords, words_of
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.sinks import expected_sinks

_words_of = memoised(words_of)


class Grid:
    """A matrix of weights or scores that the explorer draws; one of its numbers takes `cost` weights of heads."""

    cost = 1

    def __init__(self, queries: Sequence[Token], keys: Sequence[Token]) -> None:
        self.queries, self.keys = queries, keys

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """Weights, or with `scores` scores, of these queries and keys `[rows, keys]`; NaN where masked."""
        raise NotImplementedError

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

    def coarse(self) -> tuple[np.ndarray, tuple[int, int]] | None:
        """A thumbnail `[<= 64, <= 64]`, largest weights of blocks, and a block's rows and keys; None without one."""
        return None


class HeadGrid(Grid):
    """The weights and scores of one head of a recorded layer."""

    def __init__(self, layer: RecordedLayer, head: int) -> None:
        super().__init__(layer.queries, layer.keys)
        self.layer, self.head = layer, head

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """As they were recorded."""
        return self.layer.pooled(self.head, rows, keys, (1, 1), scores=scores)

    def coarse(self) -> tuple[np.ndarray, tuple[int, int]] | None:
        """The recording's thumbnail."""
        levels = self.layer.thumbnail[self.head]  # 254 times the square root of the weight
        return np.where(levels == MASKED, np.nan, (levels / LEVELS) ** 2), self.layer.thumbnail_block


class ValueGrid(Grid):
    """What one head reads: each key's weight times the norm of its value, over the row's sum of these."""

    cost = 2  # whole rows are computed

    def __init__(self, layer: RecordedLayer, head: int) -> None:
        super().__init__(layer.queries, layer.keys)
        assert layer.value_norms is not None
        self.layer, self.head = layer, head
        self.norms = layer.value_norms[head // (layer.h // len(layer.value_norms))]  # [m]

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """The shares `[rows, keys]`, 0 to 1; all of a row add to 1. NaN where masked; `scores` changes nothing."""
        read = self.layer.pooled(self.head, rows, slice(0, len(self.keys)), (1, 1)) * self.norms
        sums = np.nansum(read, axis=1, keepdims=True)
        return read[:, keys] / np.where(sums > 0, sums, 1)


class MeanGrid(Grid):
    """The mean of the weights, or of the scores, of all heads of a recorded layer."""

    def __init__(self, layer: RecordedLayer) -> None:
        super().__init__(layer.queries, layer.keys)
        self.layer, self.cost = layer, layer.h

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """The mean over heads of weights, or with `scores` of scores `[rows, keys]`; NaN where any head is masked."""
        total = self.layer.pooled(0, rows, keys, (1, 1), scores=scores)
        for head in range(1, self.layer.h):
            total = total + self.layer.pooled(head, rows, keys, (1, 1), scores=scores)
        return total / self.layer.h


class WordGrid(Grid):
    """A matrix between words: weights on the pieces of a key word are added, the rows of a query word averaged."""

    def __init__(self, grid: Grid) -> None:
        self.grid, self.rows, self.columns = grid, _words_of(grid.queries), _words_of(grid.keys)
        super().__init__(self.rows.labels, self.columns.labels)
        self.cost = max(round(len(grid.keys) / max(len(self.keys), 1)), 1) ** 2 * grid.cost

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """The weights of these query words on these key words `[words, words]`, NaN where all is masked."""
        pieces = self.grid.cells(_tokens(self.rows, rows), _tokens(self.columns, keys))
        allowed = np.isfinite(pieces)
        sums = _added(np.where(allowed, pieces, 0), self.rows, rows, self.columns, keys)
        sums /= np.diff(self.rows.starts[rows.start : rows.stop + 1])[:, None]
        return np.where(_added(allowed.astype(np.int64), self.rows, rows, self.columns, keys) > 0, sums, np.nan)


class WithoutSinks(Grid):
    """A matrix in which the keys are left blank at which sinks are expected: the first, or special tokens."""

    def __init__(self, grid: Grid, hidden: Sequence[int]) -> None:
        super().__init__(grid.queries, grid.keys)
        self.grid, self.cost, self.hidden = grid, grid.cost, np.asarray(hidden, dtype=np.int64)

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """NaN also in the columns left blank."""
        cells = np.array(self.grid.cells(rows, keys, scores=scores))
        inside = self.hidden[(self.hidden >= keys.start) & (self.hidden < keys.stop)] - keys.start
        cells[:, inside] = np.nan
        return cells


def hidden_keys(layer: RecordedLayer) -> list[int]:
    """The key positions of a layer where attention sinks are expected: the first key, or special tokens; ascending."""
    return expected_sinks(layer).tolist()


def _blocks(largest: np.ufunc, cells: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    for axis, step in enumerate(block):
        if step > 1:
            cells = largest.reduceat(cells, np.arange(0, cells.shape[axis], step), axis=axis)
    return cells


def _tokens(words: MergedWords, span: slice) -> slice:
    return slice(int(words.starts[span.start]), int(words.starts[span.stop]))


def _added(cells: np.ndarray, rows: MergedWords, i: slice, columns: MergedWords, j: slice) -> np.ndarray:
    cells = np.add.reduceat(cells, rows.starts[i] - rows.starts[i.start], axis=0)
    sums: np.ndarray = np.add.reduceat(cells, columns.starts[j] - columns.starts[j.start], axis=1)
    return sums.astype(np.float64)
