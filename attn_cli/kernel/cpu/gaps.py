"""Masks with holes: the keys of every query as an interval, and the masked stretches within it."""

from typing import NamedTuple

import numpy as np

from attn_cli.arrays import Array, indices, to_numpy
from attn_cli.kernel.definition.mask import Intervals, Mask, ends_of

_CELLS = 2**21  # of the mask that are looked at together
_MOST = 2**21  # gaps: 16 MiB


class Gaps(NamedTuple):
    """The masked keys between the first and the last key that a query may see, as G stretches of adjacent keys.

    keys      for each stretch its first masked key, and the next one that isn't masked `[G, 2]`, ascending in a row
    rows      the stretches of query i are rows[i]:rows[i + 1] of `keys` `[n + 1]`; where heads have masks of their own,
              those of query i of a head are found at head * n + i `[h * n + 1]`
    """

    rows: np.ndarray
    keys: np.ndarray
    of_heads: bool


def intervals_and_gaps(mask: Mask, n: int, m: int, like: Array) -> tuple[Intervals, Gaps] | None:
    """Each of n queries' interval from the first key to the last that it may see, and the masked keys in it."""
    first, last, count = np.zeros(n, np.int32), np.zeros(n, np.int32), 0
    counts: list[np.ndarray] = []  # [h or 1, b] of each strip
    keys: list[list[np.ndarray]] = []  # of each strip and head
    height = max(1, _CELLS // max(1, m))
    for start in range(0, n, height):
        rows = slice(start, min(start + height, n))
        cells = _cells(mask, rows, m, like)  # [h or 1, b, m]
        first[rows], last[rows] = ends_of(np.any(cells, axis=0))
        of_heads = [_gaps(of_head, first[rows], last[rows]) for of_head in cells]
        counts.append(np.stack([np.bincount(row, minlength=rows.stop - start) for row, _ in of_heads]))
        keys.append([stretches for _, stretches in of_heads])
        count += sum(map(len, keys[-1]))
        if count > _MOST:
            return None
    in_order = [strip[head] for head in range(len(keys[0]) if keys else 0) for strip in keys]
    sizes = np.concatenate([np.zeros(1, np.int64), np.concatenate(counts, axis=1).ravel()])
    return Intervals(first, last), Gaps(np.cumsum(sizes), np.concatenate(in_order), len(keys[0]) > 1)


def _cells(mask: Mask, rows: slice, m: int, like: Array) -> np.ndarray:
    """The mask's cells `[h or 1, b, m]` of some rows, whose keys beyond their span nobody looks at."""
    span = mask.span(rows.start, rows.stop, m)
    i, j = indices(rows.start, rows.stop, like), indices(span.first, span.last, like)
    seen = to_numpy(mask.allowed(i[:, None], j[None, :]))
    cells = np.zeros((*seen.shape[:-1], m), bool)
    cells[..., span.first : span.last] = seen
    return cells if cells.ndim == 3 else cells[None]


def _gaps(cells: np.ndarray, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The row of every stretch of False between `first` and `last` of its row of `[b, m]`, and its ends `[gaps, 2]`."""
    b, m = cells.shape
    places = np.arange(m)
    masked = np.zeros((b, m + 2), bool)
    np.logical_not(cells, out=masked[:, 1:-1])
    masked[:, 1:-1] &= (places >= first[:, None]) & (places < last[:, None])
    row, edge = np.nonzero(masked[:, 1:] != masked[:, :-1])  # begins and ends take turns
    return row[::2], edge.reshape(-1, 2).astype(np.int32)
