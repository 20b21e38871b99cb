"""Masked cells of a band: they hold the lowest finite number before the softmax, and weight 0 after it."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from attn_cli.arrays import Array, indices, is_torch, namespace, zeros
from attn_cli.kernel.definition.mask import Mask, Span


class MaskedCells(NamedTuple):
    """On which of some adjacent keys each of the b queries of a band is masked.

    columns  the slice of the band's keys that these are
    cells    `[b, keys]` or `[h, b, keys]`: booleans, True where masked; with `ceiling` instead the most that a score
             may be: the lowest finite number where masked, infinity elsewhere
    """

    columns: slice
    cells: Array
    ceiling: bool


def masked_cells(mask: Mask, rows: tuple[int, int], span: Span, like: Array, *, ceiling: bool) -> Iterator[MaskedCells]:
    """The masked cells of query rows rows[0]:rows[1] and the span's keys; keys that all these rows see are left out."""
    for left, right in ((span.first, span.open_first), (span.open_last, span.last)):
        if right > left:
            cells = ~mask.allowed(indices(*rows, like)[:, None], indices(left, right, like)[None, :])
            if ceiling:
                zero = zeros((), like)
                cells = namespace(like).where(cells, zero + lowest_of(like), zero + math.inf)
            yield MaskedCells(slice(left - span.first, right - span.first), cells, ceiling)


def mask_cells(scores: Array, masked: Sequence[MaskedCells]) -> None:
    """Set the scores `[h, b, c]` of b rows and c keys to the lowest finite number of their dtype where masked."""
    lowest = lowest_of(scores)
    for columns, cells, ceiling in masked:
        part = scores[..., columns]
        if ceiling:  # six times as fast as filling cell by cell, but a score of NaN would stay
            namespace(scores).minimum(part, cells, out=part)
        elif is_torch(scores):
            part.masked_fill_(cells, lowest)
        else:
            np.copyto(part, lowest, where=cells)


def lowest_of(scores: Array) -> float:
    """The lowest finite number of the scores' dtype: its exponential is 0, and 0 times it is 0 and not NaN."""
    return float(namespace(scores).finfo(scores.dtype).min)


def with_infinities(scores: Array) -> Array:
    """A copy of `scores`, of the same shape, with -inf where they are the lowest finite number: masked."""
    xp = namespace(scores)
    return xp.where(scores == lowest_of(scores), xp.full_like(scores, -float("inf")), scores)


def logarithms(weights: Array) -> Array:
    """Scores that give these weights, in the same shape: the logarithm of each, the lowest finite number for 0."""
    xp, some = namespace(weights), weights > 0
    lowest = xp.full_like(weights, lowest_of(weights))
    return xp.where(some, xp.log(xp.where(some, weights, xp.ones_like(weights))), lowest)
