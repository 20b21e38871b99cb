"""The numbers of a head's matrix, or of what is made of heads, whatever is asked of them: blocks, rows, columns."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from attn_cli.prompt import Token
from attn_cli.recording import LEVELS, MASKED, RecordedLayer
from attn_cli.summaries.calls.in_words import MergedWords, words_of
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.sinks import expected_sinks

_words_of = memoised(words_of)


class Grid(Protocol):
    """A matrix of weights or scores that the explorer draws; `cost` counts weights of heads for one of its numbers."""

    queries: Sequence[Token]
    keys: Sequence[Token]
    cost: int

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """Weights, or with `scores` scores, of these queries and keys `[rows, keys]`; NaN where masked."""

    def pooled(self, rows: slice, keys: slice, block: tuple[int, int], *, scores: bool = False) -> np.ndarray:
        """Of each block of (queries, keys) the largest weight, or with `scores` the score farthest from 0."""

    def coarse(self) -> tuple[np.ndarray, tuple[int, int]] | None:
        """A thumbnail `[<= 64, <= 64]` of largest weights of blocks, and a block's rows and keys; None without one."""


class HeadGrid:
    """The weights and scores of one head of a recorded layer."""

    cost = 1

    def __init__(self, layer: RecordedLayer, head: int) -> None:
        self.layer, self.head = layer, head
        self.queries: Sequence[Token] = layer.queries
        self.keys: Sequence[Token] = layer.keys

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """The recorded weights, or with `scores` scores, of a head `[queries, keys]`; NaN where masked."""
        return self.layer.pooled(self.head, rows, keys, (1, 1), scores=scores)

    def pooled(self, rows: slice, keys: slice, block: tuple[int, int], *, scores: bool = False) -> np.ndarray:
        """Of each block of (queries, keys) the largest weight, or with `scores` the score farthest from 0."""
        return self.layer.pooled(self.head, rows, keys, block, scores=scores)

    def coarse(self) -> tuple[np.ndarray, tuple[int, int]] | None:
        """The recorded thumbnail `[<= 64, <= 64]`, the largest weight of each block, and the block's rows and keys."""
        return thumbnail_weights(self.layer.thumbnail[self.head]), self.layer.thumbnail_block


class _CellsGrid:
    """Base class of grids whose blocks are made of their own cells."""

    queries: Sequence[Token]
    keys: Sequence[Token]
    cost = 1
    signed = False  # whether weights may be below 0

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        raise NotImplementedError

    def pooled(self, rows: slice, keys: slice, block: tuple[int, int], *, scores: bool = False) -> np.ndarray:
        cells = self.cells(rows, keys, scores=scores)
        return _farthest(cells, block) if scores or self.signed else _blocks(np.fmax, cells, block)

    def coarse(self) -> tuple[np.ndarray, tuple[int, int]] | None:
        return None


class ValueGrid(_CellsGrid):
    """What one head reads: each key's weight times the norm of its value, over the row's sum of these."""

    cost = 2  # whole rows are computed

    def __init__(self, layer: RecordedLayer, head: int) -> None:
        assert layer.value_norms is not None
        self.layer, self.head = layer, head
        self.queries: Sequence[Token] = layer.queries
        self.keys: Sequence[Token] = layer.keys
        self.norms = layer.value_norms[head // (layer.h // len(layer.value_norms))]  # [m]

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """The shares `[rows, keys]`, 0 to 1; all of a row add to 1. NaN where masked; `scores` changes nothing."""
        read = self.layer.pooled(self.head, rows, slice(0, len(self.keys)), (1, 1)) * self.norms
        sums = np.nansum(read, axis=1, keepdims=True)
        return read[:, keys] / np.where(sums > 0, sums, 1)


class MeanGrid(_CellsGrid):
    """The mean of the weights, or of the scores, of all heads of a recorded layer."""

    def __init__(self, layer: RecordedLayer) -> None:
        self.layer, self.cost = layer, layer.h
        self.queries, self.keys = layer.queries, layer.keys

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """The mean over heads of weights, or with `scores` of scores `[rows, keys]`; NaN where any head is masked."""
        total = self.layer.pooled(0, rows, keys, (1, 1), scores=scores)
        for head in range(1, self.layer.h):
            total = total + self.layer.pooled(head, rows, keys, (1, 1), scores=scores)
        return total / self.layer.h


class WordGrid(_CellsGrid):
    """A matrix between words: weights on the pieces of a key word are added, the rows of a query word averaged."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.rows, self.columns = _words_of(grid.queries), _words_of(grid.keys)
        self.queries, self.keys = self.rows.labels, self.columns.labels
        self.cost = max(round(len(grid.keys) / max(len(self.keys), 1)), 1) ** 2 * grid.cost

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """The weights of these query words on these key words `[words, words]`, NaN where all is masked."""
        pieces = self.grid.cells(_tokens(self.rows, rows), _tokens(self.columns, keys))
        allowed = np.isfinite(pieces)
        sums = _added(np.where(allowed, pieces, 0), self.rows, rows, self.columns, keys)
        sums /= np.diff(self.rows.starts[rows.start : rows.stop + 1])[:, None]
        return np.where(_added(allowed.astype(np.int64), self.rows, rows, self.columns, keys) > 0, sums, np.nan)


class WithoutSinks(_CellsGrid):
    """A matrix in which the keys are left blank at which sinks are expected: the first, or special tokens."""

    def __init__(self, grid: Grid, hidden: Sequence[int]) -> None:
        self.grid, self.cost = grid, grid.cost
        self.hidden = np.asarray(hidden, dtype=np.int64)
        self.queries, self.keys = grid.queries, grid.keys

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """Weights, or with `scores` scores, `[rows, keys]`; NaN where masked and in the columns left blank."""
        cells = np.array(self.grid.cells(rows, keys, scores=scores))
        inside = self.hidden[(self.hidden >= keys.start) & (self.hidden < keys.stop)] - keys.start
        cells[:, inside] = np.nan
        return cells


class Difference(_CellsGrid):
    """Another head's matrix less this one, of the same queries and keys; of a block of cells the farthest from 0."""

    signed = True

    def __init__(self, grid: Grid, other: Grid) -> None:
        self.grid, self.other, self.cost = grid, other, grid.cost + other.cost
        self.queries, self.keys = grid.queries, grid.keys

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """The other matrix less this one, weights or scores `[rows, keys]`; NaN where either is masked."""
        return self.other.cells(rows, keys, scores=scores) - self.grid.cells(rows, keys, scores=scores)


def _blocks(largest: np.ufunc, cells: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    for axis, step in enumerate(block):
        if step > 1:
            cells = largest.reduceat(cells, np.arange(0, cells.shape[axis], step), axis=axis)
    return cells


def _farthest(cells: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    highest, lowest = _blocks(np.fmax, cells, block), _blocks(np.fmin, cells, block)
    return np.where(np.abs(highest) >= np.abs(lowest), highest, lowest)


def hidden_keys(layer: RecordedLayer) -> list[int]:
    """The key positions of a layer where attention sinks are expected: the first key, or special tokens; ascending."""
    return expected_sinks(layer).tolist()


def thumbnail_weights(levels: np.ndarray) -> np.ndarray:
    """The weights, 0 to 1, of a thumbnail's cells, stored as whole numbers: 254 times the square root of the weight."""
    return np.where(levels == MASKED, np.nan, (levels / LEVELS) ** 2)


def _tokens(words: MergedWords, span: slice) -> slice:
    return slice(int(words.starts[span.start]), int(words.starts[span.stop]))


def _added(cells: np.ndarray, rows: MergedWords, i: slice, columns: MergedWords, j: slice) -> np.ndarray:
    cells = np.add.reduceat(cells, rows.starts[i] - rows.starts[i.start], axis=0)
    sums: np.ndarray = np.add.reduceat(cells, columns.starts[j] - columns.starts[j.start], axis=1)
    return sums.astype(np.float64)
