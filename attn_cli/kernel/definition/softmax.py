"""The softmax of attention rows: stable, sink-aware, and 0 (never NaN, never uniform) where nothing may be seen."""

import numpy as np

from attn_cli.arrays import Array, is_torch, namespace

TAME = 60.0  # e^60 = 1e26: a sum of 1e12 of them is still a float32, and e^-60 over that sum is not yet 0


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


def unnormalised(scores: Array) -> Array:
    """The scores themselves as weights, 0 where blocked: mixing by raw dot products, before anyone normalised them.

    >>> unnormalised(np.array([[[2.0, -np.inf, 0.5]]])).tolist()
    [[[2.0, 0.0, 0.5]]]
    """
    xp = namespace(scores)
    return xp.where(scores <= xp.finfo(scores.dtype).min, xp.zeros_like(scores), scores)


def softmax_into(scores: Array, sink: Array | None, out: Array | None, *, sure: bool, tame: bool = False) -> Array:
    """The same weights for scores whose blocked cells hold the lowest finite number, written into `out`.

    `out` may be `scores` itself, which is then lost, or None for new memory; `sure` promises that every row has a key
    to attend to, `tame` that no score is larger than `TAME` or, where open, lower than -`TAME`: then the maximum need
    not be subtracted. Equal to `softmax` (tests/kernel/test_bands.py). torch has one fused pass, NumPy gets in-place
    steps.
    """
    if scores.shape[-1] == 0:
        return scores
    xp = namespace(scores)
    blocked = None
    if not sure:
        blocked = xp.max(scores, axis=-1, keepdims=True) == xp.finfo(scores.dtype).min
    if sink is not None or out is None or not (is_torch(scores) or isinstance(scores, np.ndarray)):
        weights = softmax(scores, sink)
    elif is_torch(scores):
        weights = xp.softmax(scores, -1, out=out)
    else:
        if tame and sure:
            weights = np.exp(scores, out=out)
        else:
            weights = np.subtract(scores, scores.max(axis=-1, keepdims=True), out=out)
            np.exp(weights, out=weights)
        totals = weights @ np.ones((scores.shape[-1], 1), dtype=weights.dtype)  # a product adds up faster than a sum
        np.divide(weights, totals, out=weights)
    return weights if blocked is None else xp.where(blocked, xp.zeros_like(weights), weights)
