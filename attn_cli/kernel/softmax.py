"""The softmax of attention rows: stable, sink-aware, and 0 (never NaN, never uniform) where nothing may be seen."""

import numpy as np

from attn_cli.arrays import Array, is_torch, namespace


def softmax(scores: Array, sink: Array | None = None) -> Array:
    """Weights `[h, n, m]` of scores `[h, n, m]`: every row exp(score) / sum, after its maximum was subtracted.

    Blocked cells hold -inf and get weight exactly 0; a row of nothing but -inf gets weights 0. With `sink [h]` the
    sum has one more term exp(sink), so rows sum to less than 1.

    >>> np.round(softmax(np.array([[[2.0, 1.0, 0.5]]])), 4).tolist()
    [[[0.6285, 0.2312, 0.1402]]]
    >>> softmax(np.array([[[-np.inf, -np.inf]]])).tolist()
    [[[0.0, 0.0]]]
    """
    if scores.shape[-1] == 0:
        return scores
    xp = namespace(scores)
    top = xp.max(scores, axis=-1, keepdims=True)
    if sink is not None:
        top = xp.maximum(top, sink[:, None, None])
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))  # -inf - -inf would be NaN
    weights = xp.exp(scores - top)
    total = xp.sum(weights, axis=-1, keepdims=True)
    if sink is not None:
        total = total + xp.exp(sink[:, None, None] - top)
    return weights / xp.where(total > 0, total, xp.ones_like(total))


def softmax_into(scores: Array, sink: Array | None, out: Array | None) -> Array:
    """The same weights, written into `out` where that saves a pass; `out` may be `scores` itself, which is then lost.

    Equal to `softmax` (tests/kernel/test_softmax.py). torch's own softmax is one fused pass; NumPy gets in-place steps.
    """
    if sink is not None or out is None or scores.shape[-1] == 0:
        return softmax(scores, sink)
    if is_torch(scores):
        xp = namespace(scores)
        weights = xp.softmax(scores, -1, out=out)
        blocked = weights[..., :1].isnan()  # a row of -inf comes out as NaN throughout, so one column tells
        return weights.masked_fill_(blocked, 0.0) if bool(blocked.any()) else weights
    top = scores.max(axis=-1, keepdims=True)
    top[~np.isfinite(top)] = 0
    np.subtract(scores, top, out=out)
    np.exp(out, out=out)
    total = out.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    return np.divide(out, total, out=out)
