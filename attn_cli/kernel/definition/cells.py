"""Any rectangle of cells, straight from queries and keys: rows and keys may be runs or picked ones."""

from typing import TypeAlias

from attn_cli.arrays import Array, at_least_float32, indices, namespace
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.definition.softmax import unnormalised

Places: TypeAlias = slice | Array
"""Rows or keys: a slice without a step, or an ascending array of their numbers."""


def scores_between(q: Array, k: Array, rule: Rule, i: Array, j: Array) -> Array:
    """Scores `[h, b, c]` of queries q `[h, b, d]` at i `[b]` and keys k `[g, c, d]` at j `[c]`; -inf where masked."""
    xp = namespace(q)
    across = xp.matrix_transpose(expand_groups(at_least_float32(k), q.shape[0]))  # [h, d, c]
    result = rule.capped((at_least_float32(q) * rule.scale) @ across)  # [h, b, d] @ [h, d, c]
    if rule.bias is not None:
        result = result + at_least_float32(_bias(rule, i, j))
    allowed = rule.mask.allowed(i[:, None], j[None, :])  # [b, c] or [h, b, c]
    return xp.where(allowed, result, xp.full_like(result, -float("inf")))


def weights_of(scores: Array, rule: Rule, log_sums: Array) -> Array:
    """The weights of scores, `[h, b, c]` (-inf: masked), by rows' `log_sums` `[h, b]`; without a softmax the scores."""
    if not rule.softmax:
        return unnormalised(scores)
    xp = namespace(scores)
    finite = xp.where(log_sums == -float("inf"), xp.zeros_like(log_sums), log_sums)  # -inf of an empty row
    return xp.exp(scores - finite[..., None])


def numbers_of(places: Places, count: int, like: Array) -> Array:
    """The numbers `[b]` of the rows or keys in `places`: a slice of 0 .. count - 1, or these numbers themselves."""
    return indices(0, count, like)[places] if isinstance(places, slice) else places


def _bias(rule: Rule, i: Array, j: Array) -> Array:
    if 0 in (i.shape[0], j.shape[0]):
        return namespace(i).zeros((i.shape[0], j.shape[0]))
    start, stop, first, last = int(i[0]), int(i[-1]) + 1, int(j[0]), int(j[-1]) + 1
    runs = [(start, stop)] if stop - start == i.shape[0] else [(row, row + 1) for row in i.tolist()]
    parts = [rule.bias_of(top, bottom, first, last) for top, bottom in runs]
    bias: Array = parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts, axis=-2)
    return bias if bias.shape[-1] == 1 or last - first == j.shape[0] else bias[..., j - first]
