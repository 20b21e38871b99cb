"""The definition path apart: every array between q kᵀ and the output, in the order in which it is computed."""

from typing import NamedTuple

from attn_cli.arrays import Array, at_least_float32, namespace
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.kernel.definition.mask import dense as dense_mask
from attn_cli.kernel.definition.rule import Rule
from attn_cli.text import scale_words


class Step(NamedTuple):
    """One array on the way from q kᵀ to the output: its name, the formula from the array before, and its numbers."""

    name: str
    formula: str
    values: Array


def steps(q: Array, k: Array, v: Array, rule: Rule) -> list[Step]:
    """The arrays on the way from q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]` to the output, in order."""
    xp = namespace(q)
    q, k, v = (expand_groups(at_least_float32(x), q.shape[0]) for x in (q, k, v))
    path = [Step("scores", "q · k", q @ xp.matrix_transpose(k))]  # [h, n, d] @ [h, d, m]

    if rule.scale != 1:
        path.append(Step("scaled", scale_words(rule.scale), path[-1].values * rule.scale))
    if rule.softcap is not None:
        path.append(Step("capped", f"cap {rule.softcap:g}", rule.capped(path[-1].values)))
    bias = rule.bias_of(0, q.shape[-2], 0, k.shape[-2])
    if bias is not None:
        path.append(Step("biased", "+ bias", path[-1].values + at_least_float32(bias)))
    allowed = dense_mask(rule.mask, q.shape[-2], k.shape[-2], like=q)
    masked = xp.full_like(path[-1].values, -float("inf"))
    if not rule.mask.is_open:
        path.append(Step("masked", str(rule.mask), xp.where(allowed, path[-1].values, masked)))
    if rule.softmax:
        _soften(path, rule.sink)
    else:
        last = path[-1].values
        path.append(Step("weights", "as they are", xp.where(last == masked, xp.zeros_like(last), last)))
    path.append(Step("output", "weights · v", path[-1].values @ v))  # [h, n, m] @ [h, m, e]
    return path


def _soften(path: list[Step], sink: Array | None) -> None:
    scores = path[-1].values
    xp = namespace(scores)
    top = xp.max(scores, axis=-1, keepdims=True)  # [h, n, 1]
    if sink is not None:
        top = xp.maximum(top, sink[:, None, None])
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    path += [Step("largest", "row maximum", top), Step("shifted", "− row maximum", scores - top)]
    powers = xp.exp(path[-1].values)
    path.append(Step("exp", "e^s", powers))
    total = xp.sum(powers, axis=-1, keepdims=True)
    if sink is not None:
        path.append(Step("sink", "e^s of the sink", xp.exp(sink[:, None, None] - top)))
        total = total + path[-1].values
    path.append(Step("sum", "row sum" if sink is None else "row sum + sink", total))
    divisor = xp.where(total > 0, total, xp.ones_like(total))
    if sink is not None:
        path.append(Step("sink weight", "÷ sum", path[-2].values / divisor))
    path.append(Step("weights", "÷ sum", powers / divisor))
