"""Blocked cells of a band: they hold the lowest finite number before the softmax, and weight 0 after it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attn_cli.arrays import Array, indices, is_torch, namespace, zeros
from attn_cli.kernel.definition.masks import Mask, Span


class Blocked(NamedTuple):
    """Which cells of some columns of a band are blocked, `[b, .]` or `[h, b, .]`.

    cells  booleans, or, with `ceiling`, the most that a score may be: infinity, and the lowest number where blocked
    """

    columns: slice
    cells: Array
    ceiling: bool


def blocked_cells(mask: Mask, rows: tuple[int, int], span: Span, like: Array, *, ceiling: bool) -> list[Blocked]:
    """The blocked cells of a band. Only keys that are not open for all rows are asked."""
    found = []
    for left, right in ((span.first, span.open_first), (span.open_last, span.last)):
        if right > left:
            cells = ~mask.allowed(indices(*rows, like)[:, None], indices(left, right, like)[None, :])
            if ceiling:
                most = zeros((), like)
                cells = namespace(like).where(cells, most + lowest_of(like), most + math.inf)
            found.append(Blocked(slice(left - span.first, right - span.first), cells, ceiling))
    return found


def block(scores: Array, blocked: Sequence[Blocked], heads: slice) -> None:
    """Set the blocked cells of a band of these heads to the lowest number, in place."""
    lowest = lowest_of(scores)
    for columns, cells, ceiling in blocked:
        closed = cells[heads, ...] if cells.ndim == 3 and cells.shape[0] > 1 else cells
        part = scores[..., columns]
        if ceiling:  # six times as fast as telling cell by cell, but a score that is no number would stay
            namespace(scores).minimum(part, closed, out=part)
        elif is_torch(scores):
            part.masked_fill_(closed, lowest)
        elif isinstance(scores, np.ndarray):
            np.copyto(part, lowest, where=closed)
        else:
            xp = namespace(scores)
            scores[..., columns] = xp.where(closed, xp.full_like(part, lowest), part)


def lowest_of(scores: Array) -> float:
    """The lowest finite number of the precision: its exponential is 0, and 0 times it is 0 and not NaN."""
    return float(namespace(scores).finfo(scores.dtype).min)


def with_infinities(scores: Array) -> Array:
    """A copy of `scores` with -inf in the blocked cells."""
    xp = namespace(scores)
    return xp.where(scores == lowest_of(scores), xp.full_like(scores, -float("inf")), scores)
