"""The same attention a few query rows at a time, so that memory grows with n and not with n times m."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from attn_cli.arrays import Array, at_least_float32, is_torch, namespace
from attn_cli.kernel.bands.band import Band, Buffer
from attn_cli.kernel.bands.masked_cells import MaskedCells, lowest_of, mask_cells, masked_cells
from attn_cli.kernel.bands.plan import Plan
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.definition.softmax import softmax, unnormalised


def bands(q: Array, k: Array, v: Array, rule: Rule, plan: Plan) -> Iterator[Band]:
    """The plan's rows of q `[h, n, d]`, over k `[g, m, d]` and v `[g, m, e]`, as `Band`s in ascending order."""
    q, k, v = (at_least_float32(x) for x in (q, k, v))
    (h, _, _), (g, m, _) = q.shape, k.shape
    size = plan.heads * plan.height * m
    of_scores = Buffer(q, size)
    memory = of_scores, Buffer(q, size) if plan.keep_scores else of_scores
    k_across = namespace(q).matrix_transpose(k)  # [g, d, m]
    for start, stop in plan.pieces():
        span = rule.mask.span(start, stop, m)
        keys = slice(span.first, span.last)
        masked = tuple(masked_cells(rule.mask, (start, stop), span, q))
        bias = rule.bias_of(start, stop, span.first, span.last)
        queries = q[:, start:stop, :] * rule.scale  # [h, b, d]: fewer numbers to scale than [h, b, c] of the scores
        every_row_sees_a_key = span.open_last > span.open_first or span.first == span.last
        for first in range(0, h, plan.heads):
            heads = slice(first, min(first + plan.heads, h))
            key_heads = slice(first * g // h, max(heads.stop * g // h, first * g // h + 1))
            sink = None if rule.sink is None else rule.sink[heads]
            own = replace(rule, bias=_of_heads(bias, heads), sink=sink)
            cells = tuple(x._replace(cells=_of_heads(x.cells, heads)) for x in masked)
            operands = queries[heads, ...], k_across[key_heads, :, keys], v[key_heads, keys, :]
            place = partial(Band, start, stop, span.first, span.last, heads=heads)
            yield _band(place, operands, own, cells, every_row_sees_a_key, memory)


def _of_heads(x: Array | None, heads: slice) -> Array | None:
    return x[heads, ...] if x is not None and x.ndim == 3 and x.shape[0] > 1 else x


def _band(
    place: Callable[..., Band],
    operands: tuple[Array, Array, Array],
    rule: Rule,
    masked: tuple[MaskedCells, ...],
    every_row_sees_a_key: bool,
    memory: tuple[Buffer, Buffer],
) -> Band:
    """One band in four passes over its cells: product with the keys, mask, softmax, product with the values.

    operands  q `[h, b, d]`, already times the scale; the keys as columns `[g, d, c]`; v `[g, c, e]`
    masked    for ranges of these keys a `MaskedCells`; all b rows see the keys of no range
    memory    for scores and weights; where it is the same, the weights overwrite the scores
    """
    q, k_across, v = operands
    xp = namespace(q)
    (h, b, d), (g, _, c) = q.shape, k_across.shape
    stacked = xp.reshape(q, (g, h // g * b, d))
    scores = xp.matmul(stacked, k_across, out=memory[0].view(g, h // g * b, c))  # [g, r*b, d] @ [g, d, c]
    scores = rule.capped(xp.reshape(scores, (h, b, c)))
    if rule.bias is not None:
        scores = scores + at_least_float32(rule.bias)  # [h, b, c] + [h or 1, b or 1, c or 1]
    mask_cells(scores, masked)
    if rule.softmax:
        empty = None if every_row_sees_a_key else xp.max(scores, axis=-1, keepdims=True) == lowest_of(scores)
        weights = _softmax_into(scores, rule.sink, memory[1].view(h, b, c))  # [h, b, c]
        weights = weights if empty is None else xp.where(empty, xp.zeros_like(weights), weights)
    else:
        weights = unnormalised(scores)
    mixed = xp.reshape(weights, (g, h // g * b, c)) @ v  # [g, r*b, c] @ [g, c, e]
    return place(weights, None if memory[0] is memory[1] else scores, xp.reshape(mixed, (h, b, v.shape[-1])))


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
