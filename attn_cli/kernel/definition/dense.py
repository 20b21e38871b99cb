"""Scaled dot-product attention as the paper writes it: the definition that every faster form is tested against."""

from typing import Any, NamedTuple

from attn_cli.arrays import Array, at_least_float32, indices, namespace
from attn_cli.display import drawing
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.definition.softmax import softmax, unnormalised


class Attention(NamedTuple):
    """The attention of n queries to m keys in h heads: scores (-inf where masked), weights and output `[h, n, e]`."""

    scores: Array
    weights: Array
    output: Array

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return drawing().bundle(self)


def scores(q: Array, k: Array, rule: Rule, i: Array | None = None, j: Array | None = None) -> Array:
    """The scores `[h, n, m]` of q `[h, n, d]` and k `[g, m, d]` as the softmax gets them; -inf where masked.

    g divides h: key head j serves query heads j * h/g .. (j + 1) * h/g - 1 (grouped queries, Ainslie et al. 2023).
    i `[n]` and j `[m]` are the ascending numbers of queries and keys; None for 0, 1, 2 ...
    """
    xp = namespace(q)
    i = indices(0, q.shape[-2], q) if i is None else i
    j = indices(0, k.shape[-2], k) if j is None else j
    k = expand_groups(k, q.shape[0])  # [h, m, d]
    products = at_least_float32(q) @ xp.matrix_transpose(at_least_float32(k))  # [h, n, d] @ [h, d, m]
    result = rule.capped(products * rule.scale)  # [h, n, m]
    if rule.bias is not None:
        result = result + at_least_float32(_bias(rule, i, j))  # [h, n, m] + [h or 1, n or 1, m or 1]
    allowed = rule.mask.allowed(i[:, None], j[None, :])  # [n, m] or [h, n, m]
    return xp.where(allowed, result, xp.full_like(result, -float("inf")))


def _bias(rule: Rule, i: Array, j: Array) -> Array:
    if 0 in (i.shape[0], j.shape[0]):
        return namespace(i).zeros((i.shape[0], j.shape[0]))
    start, stop, first, last = int(i[0]), int(i[-1]) + 1, int(j[0]), int(j[-1]) + 1
    runs = [(start, stop)] if stop - start == i.shape[0] else [(row, row + 1) for row in i.tolist()]
    parts = [rule.bias_of(top, bottom, first, last) for top, bottom in runs]
    bias: Array = parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts, axis=-2)
    return bias if bias.shape[-1] == 1 or last - first == j.shape[0] else bias[..., j - first]


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
