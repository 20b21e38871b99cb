"""Masked cells of a band: they hold the lowest finite number before the softmax, and weight 0 after it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from attn_cli.arrays import Array, indices, namespace, on_cpu, to_numpy
from attn_cli.kernel.definition.mask import Mask, Span


class MaskedCells(NamedTuple):
    """Where the b queries of a band don't see a slice of its keys: `[b, keys]` or `[h, b, keys]`, True where masked."""

    columns: slice
    cells: Array


def masked_cells(mask: Mask, rows: tuple[int, int], span: Span, like: Array) -> Iterator[MaskedCells]:
    """The masked cells of query rows rows[0]:rows[1] and the span's keys; keys that all these rows see are left out."""
    for left, right in ((span.first, span.open_first), (span.open_last, span.last)):
        if right > left:
            cells = ~mask.allowed(indices(*rows, like)[:, None], indices(left, right, like)[None, :])
            yield MaskedCells(slice(left - span.first, right - span.first), cells)


def mask_cells(scores: Array, masked: Sequence[MaskedCells]) -> None:
    """Set the scores `[h, b, c]` of b rows and c keys to the lowest finite number of their dtype where masked."""
    lowest = lowest_of(scores)
    for columns, cells in masked:
        part = scores[..., columns]
        if on_cpu(scores):  # twice as fast as torch
            np.copyto(to_numpy(part), lowest, where=to_numpy(cells))
        else:
            part.masked_fill_(cells, lowest)


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
