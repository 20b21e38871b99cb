"""Scaled dot-product attention as the paper writes it: the definition that every faster form is tested against."""

from typing import Any, NamedTuple

from attn_cli.arrays import Array, at_least_float32, namespace
from attn_cli.display import drawing
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.kernel.definition.mask import dense as dense_mask
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.definition.softmax import softmax, unnormalised


class Attention(NamedTuple):
    """The attention of n queries to m keys in h heads: scores (-inf where masked), weights and output `[h, n, e]`."""

    scores: Array
    weights: Array
    output: Array

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return drawing().bundle(self)


def scores(q: Array, k: Array, rule: Rule) -> Array:
    """The scores `[h, n, m]` of q `[h, n, d]` and k `[g, m, d]` as the softmax gets them; -inf where masked.

    g divides h: key head j serves query heads j * h/g .. (j + 1) * h/g - 1 (grouped queries, Ainslie et al. 2023).
    """
    xp = namespace(q)
    k = expand_groups(k, q.shape[0])  # [h, m, d]
    products = at_least_float32(q) @ xp.matrix_transpose(at_least_float32(k))  # [h, n, d] @ [h, d, m]
    result = rule.capped(products * rule.scale)  # [h, n, m]
    bias = rule.bias_of(0, q.shape[-2], 0, k.shape[-2])
    if bias is not None:
        result = result + at_least_float32(bias)  # [h, n, m] + [h or 1, n or 1, m or 1]
    allowed = dense_mask(rule.mask, q.shape[-2], k.shape[-2], like=q)  # [n, m] or [h, n, m]
    return xp.where(allowed, result, xp.full_like(result, -float("inf")))


def attend(q: Array, k: Array, v: Array, rule: Rule) -> Attention:
    """softmax(q kᵀ * scale + bias + mask) v: scores, weights and output (Vaswani et al. 2017, eq. 1).

    q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`, with g key heads for h query heads. Shorter floats are
    computed in float32.

    >>> import numpy as np
    >>> x = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> np.round(attend(x, x, x, Rule(scale=1.0)).weights, 3).tolist()
    [[[0.731, 0.269], [0.269, 0.731]]]
    """
    all_scores = scores(q, k, rule)
    weights = softmax(all_scores, rule.sink) if rule.softmax else unnormalised(all_scores)
    output = weights @ expand_groups(at_least_float32(v), q.shape[0])  # [h, n, m] @ [h, m, e]
    return Attention(all_scores, weights, output)
