"""How many keys rows may see, and how many rows a key may be seen by: by the mask, not by weights over 0."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attn_cli.arrays import Array, indices, to_numpy
from attn_cli.kernel.definition.masks import Mask
from attn_cli.kernel.walk.intervals import intervals


class VisibleCells(NamedTuple):
    """Cells that a mask allows among r rows and m keys, where heads differ the mean over them.

    of_rows  the keys that each row may see `[r]`
    of_keys  the rows that may see each key `[m]`
    chance   the weight that a key would get from these rows if each gave the same to all that it may see `[m]`
    """

    of_rows: np.ndarray
    of_keys: np.ndarray
    chance: np.ndarray


def visible_cells(mask: Mask, rows: Sequence[int], m: int, like: Array) -> VisibleCells:
    """The cells of `rows`, ascending, that `mask` allows among m keys; `like` is an array of the mask's library.

    >>> from attn_cli.kernel.definition.masks import Causal
    >>> counts = visible_cells(Causal(), [1, 3], 4, np.empty(0))
    >>> counts.of_rows.tolist(), counts.of_keys.tolist(), counts.chance.tolist()
    ([2.0, 4.0], [2.0, 2.0, 1.0, 1.0], [0.75, 0.75, 0.25, 0.25])
    """
    bounds = intervals(mask, max(rows, default=-1) + 1, m)
    if bounds is None:
        return _cell_by_cell(mask, rows, m, like)
    first, last = bounds.first[list(rows)], np.maximum(bounds.last, bounds.first)[list(rows)]
    of_rows = (last - first).astype(np.float64)
    return VisibleCells(of_rows, _covered(first, last, np.ones(len(rows)), m), _covered(first, last, even(of_rows), m))


def even(of_rows: np.ndarray) -> np.ndarray:
    """The weight of a key in rows that give the same to all keys that they may see; 0 for rows that see none."""
    return np.divide(1.0, of_rows, out=np.zeros_like(of_rows), where=of_rows > 0)


def _covered(first: np.ndarray, last: np.ndarray, amounts: np.ndarray, m: int) -> np.ndarray:
    """For every key the sum of the amounts of the intervals that it lies in `[m]`."""
    steps = np.bincount(first, amounts, m + 1) - np.bincount(last, amounts, m + 1)
    return np.cumsum(steps)[:m]


def _cell_by_cell(mask: Mask, rows: Sequence[int], m: int, like: Array) -> VisibleCells:
    """The same for a mask whose rows are no intervals."""
    of_rows, of_keys, chance = np.zeros(len(rows)), np.zeros(m), np.zeros(m)
    columns = indices(0, m, like)[None, :]
    for at, row in enumerate(rows):
        allowed = mask.allowed(indices(row, row + 1, like)[:, None], columns)  # [1, m] or [h, 1, m]
        cells = to_numpy(allowed).astype(np.float64).reshape(-1, m)
        of_rows[at] = cells.sum() / len(cells)
        of_keys += cells.mean(axis=0)
        chance += (cells * even(cells.sum(axis=1))[:, None]).mean(axis=0)
    return VisibleCells(of_rows, of_keys, chance)
