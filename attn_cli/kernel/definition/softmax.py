"""The softmax of attention rows: stable, sink-aware, and 0 (never NaN, never uniform) where all is masked."""

from attn_cli.arrays import Array, namespace


def softmax(scores: Array, sink: Array | None = None) -> Array:
    """Weights `[h, n, m]` of scores `[h, n, m]`: every row exp(score) / sum, after its maximum was subtracted.

    Masked cells hold -inf and get weight exactly 0; a row of nothing but -inf gets weights 0. With `sink [h]` the
    sum has one more term exp(sink), so rows sum to less than 1.

    >>> import numpy as np
    >>> np.round(softmax(np.array([[[2.0, 1.0, 0.5]]])), 4).tolist()
    [[[0.6285, 0.2312, 0.1402]]]
    >>> softmax(np.array([[[-np.inf, -np.inf]]])).tolist()
    [[[0.0, 0.0]]]
    """
    if scores.shape[-1] == 0:
        return scores
    xp = namespace(scores)
    top = xp.max(scores, axis=-1, keepdims=True)  # [h, n, 1]
    if sink is not None:
        top = xp.maximum(top, sink[:, None, None])
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))  # -inf - -inf would be NaN
    weights = xp.exp(scores - top)
    total = xp.sum(weights, axis=-1, keepdims=True)  # [h, n, 1]
    if sink is not None:
        total = total + xp.exp(sink[:, None, None] - top)
    return weights / xp.where(total > 0, total, xp.ones_like(total))  # [h, n, m] / [h, n, 1]


def weights_of(scores: Array, log_sums: Array) -> Array:
    """The weights of some cells of rows, `[h, b, c]` like their scores, by the rows' logsumexp `[h, b]`."""
    xp = namespace(scores)
    finite = xp.where(log_sums == -float("inf"), xp.zeros_like(log_sums), log_sums)  # -inf of an empty row
    return xp.exp(scores - finite[..., None])


def unnormalised(scores: Array) -> Array:
    """The scores themselves as weights, 0 where masked (-inf or the lowest finite number): nothing is normalised."""
    xp = namespace(scores)
    return xp.where(scores <= xp.finfo(scores.dtype).min, xp.zeros_like(scores), scores)
