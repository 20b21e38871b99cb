"""The definition taken apart: every array between q kᵀ and the output, in the order in which it is computed."""

from typing import NamedTuple

from attn_cli.arrays import Array, at_least_float32, namespace
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.kernel.definition.masks import Open
from attn_cli.kernel.definition.masks import dense as dense_mask
from attn_cli.kernel.definition.rule import Rule


class Step(NamedTuple):
    """One array on the way: its name, the formula that makes it from the array before, and its numbers."""

    name: str
    formula: str
    values: Array


def steps(q: Array, k: Array, v: Array, rule: Rule) -> list[Step]:
    """From q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]` to the output `[h, n, e]`; arrays in between are `[h, n, m]`.

    The rule decides which steps there are: scores, scaled, capped, biased, masked, shifted (the row's maximum
    subtracted), exp, weights, output. Equal to `dense.attend` (tests/kernel/lessons/test_steps.py).

    >>> import numpy as np
    >>> x = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> [step.name for step in steps(x, x, x, Rule(0.5))]
    ['scores', 'scaled', 'shifted', 'exp', 'weights', 'output']
    """
    xp = namespace(q)
    q, k, v = (expand_groups(at_least_float32(x), q.shape[0]) for x in (q, k, v))
    taken = [Step("scores", "q · k", q @ xp.matrix_transpose(k))]

    def then(name: str, formula: str, values: Array) -> None:
        taken.append(Step(name, formula, values))

    if rule.scale != 1:
        then("scaled", f"× {rule.scale:.4g}", taken[-1].values * rule.scale)
    if rule.softcap is not None:
        then("capped", f"cap {rule.softcap:g}", rule.capped(taken[-1].values))
    bias = rule.bias_of(0, q.shape[-2], 0, k.shape[-2])
    if bias is not None:
        then("biased", "+ bias", taken[-1].values + at_least_float32(bias))
    allowed = dense_mask(rule.mask, q.shape[-2], k.shape[-2], like=q)
    masked = xp.full_like(taken[-1].values, -float("inf"))
    if not isinstance(rule.mask, Open):
        then("masked", str(rule.mask), xp.where(allowed, taken[-1].values, masked))
    if rule.softmax:
        _soften(taken, rule.sink)
    else:
        last = taken[-1].values
        then("weights", "as they are", xp.where(last == masked, xp.zeros_like(last), last))
    then("output", "weights · v", taken[-1].values @ v)
    return taken


def _soften(taken: list[Step], sink: Array | None) -> None:
    """The softmax in three steps; a row of nothing but -inf gets weights 0."""
    scores = taken[-1].values
    xp = namespace(scores)
    top = xp.max(scores, axis=-1, keepdims=True)
    if sink is not None:
        top = xp.maximum(top, sink[:, None, None])
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    taken.append(Step("shifted", "− row maximum", scores - top))
    powers = xp.exp(taken[-1].values)
    taken.append(Step("exp", "e^s", powers))
    total = xp.sum(powers, axis=-1, keepdims=True)
    if sink is not None:
        total = total + xp.exp(sink[:, None, None] - top)
    formula = "/ row sum" if sink is None else "/ (row sum + sink)"
    taken.append(Step("weights", formula, powers / xp.where(total > 0, total, xp.ones_like(total))))
