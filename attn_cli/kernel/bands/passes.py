"""One band in four passes over its cells: product with the keys, mask, softmax, product with the values."""

import numpy as np

from attn_cli.arrays import Array, at_least_float32, is_torch, namespace
from attn_cli.kernel.bands.band import Band, Buffers, Work
from attn_cli.kernel.bands.masked_cells import lowest_of, mask_cells
from attn_cli.kernel.definition.softmax import softmax, unnormalised


def in_passes(work: Work, buffers: Buffers) -> Band:
    """The attention of a band (b query rows on c keys), equal to that of `dense.attend`."""
    xp = namespace(work.q)
    (h, b, d), (g, _, c) = work.q.shape, work.k_across.shape
    r = h // g
    stacked = xp.reshape(work.q, (g, r * b, d))
    scores = xp.matmul(stacked, work.k_across, out=buffers.scores.view((g, r * b, c)))  # [g, r*b, d] @ [g, d, c]
    scores = work.rule.capped(xp.reshape(scores, (h, b, c)))
    if work.bias is not None:
        scores = scores + at_least_float32(work.bias)  # [h, b, c] + [h or 1, b or 1, c or 1]
    mask_cells(scores, work.masked, work.heads)
    if work.rule.softmax:
        out = scores if buffers.weights is None else buffers.weights.view((h, b, c))
        every_row_sees_a_key = work.span.open_last > work.span.open_first
        empty = None if every_row_sees_a_key or c == 0 else xp.max(scores, axis=-1, keepdims=True) == lowest_of(scores)
        weights = _softmax_into(scores, work.sink, out)  # [h, b, c]
        weights = weights if empty is None else xp.where(empty, xp.zeros_like(weights), weights)
    else:
        weights = unnormalised(scores)
    mixed = xp.reshape(weights, (g, r * b, c)) @ work.v  # [g, r*b, c] @ [g, c, e]
    output = xp.reshape(mixed, (h, b, work.v.shape[-1]))
    return work.band(weights, None if buffers.weights is None else scores, output)


def _softmax_into(scores: Array, sink: Array | None, out: Array) -> Array:
    """Weights of scores, both `[h, b, c]` (masked: the lowest finite number); `sink` `[h]` is in every row's sum."""
    if sink is not None or scores.shape[-1] == 0:
        return softmax(scores, sink)
    if is_torch(scores):
        return namespace(scores).softmax(scores, -1, out=out)
    weights = np.subtract(scores, scores.max(axis=-1, keepdims=True), out=out)
    np.exp(weights, out=weights)
    totals = weights @ np.ones((scores.shape[-1], 1), dtype=weights.dtype)  # a product adds up faster than a sum
    return np.divide(weights, totals, out=weights)  # [h, b, c] / [h, b, 1]
