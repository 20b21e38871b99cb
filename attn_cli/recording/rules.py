"""A layer's rule in NumPy, as a recording keeps it, and the rule of one head alone."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.call import Call
from attn_cli.kernel.definition.bias import Alibi, Bias, BiasSum, GivenBias
from attn_cli.kernel.definition.mask import Mask, dense, given_mask
from attn_cli.kernel.definition.rule import Rule


def rule_in_numpy(call: Call) -> Rule:
    """An attention call's rule (scale, softcap, bias, mask, sink) with NumPy arrays."""
    rule = call.rule
    sink = None if rule.sink is None else to_numpy(rule.sink)
    return replace(rule, bias=_bias(rule.bias, call), mask=_mask(rule.mask, call), sink=sink)


def rule_of_heads(rule: Rule, heads: list[int]) -> Rule:
    """The rule (scale, softcap, bias, mask, sink), in NumPy, of some of the heads alone, by their indices."""
    sink = None if rule.sink is None else rule.sink[heads]
    return replace(rule, bias=_of_heads(rule.bias, heads), mask=_of_heads(rule.mask, heads), sink=sink)


def _bias(bias: object, call: Call) -> object:
    match bias:
        case None:
            return None
        case BiasSum(parts=parts):
            return BiasSum([_bias(part, call) for part in parts])  # type: ignore[misc]
        case Alibi(slopes=slopes, offset=offset):
            return Alibi(to_numpy(slopes), offset)
        case GivenBias(numbers=numbers):
            return GivenBias(to_numpy(at_least_float32(numbers)))
        case Bias():
            return GivenBias(to_numpy(at_least_float32(bias.cells(0, call.n, 0, call.m))))
    return np.array(to_numpy(at_least_float32(bias)))


def _mask(mask: Mask, call: Call) -> Mask:
    cells = mask.cells
    if callable(cells):
        return given_mask(to_numpy(dense(mask, call.n, call.m, like=call.like)), str(mask))
    keys, cells = (None if x is None else to_numpy(x) for x in (mask.keys, cells))
    return replace(mask, keys=keys, cells=cells, parts=tuple(_mask(part, call) for part in mask.parts))


def _of_heads(part: Any, heads: list[int]) -> Any:
    """A mask or bias, or a value of one, for these heads: arrays with an axis of heads are cut."""
    if isinstance(part, Alibi):
        return replace(part, slopes=part.slopes[heads])
    if isinstance(part, list | tuple):
        return tuple(_of_heads(one, heads) for one in part)
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{one.name: _of_heads(getattr(part, one.name), heads) for one in fields(part)})
    if not isinstance(part, np.ndarray) or part.ndim < 3 or part.shape[0] == 1:
        return part
    return part[heads[0] : heads[0] + 1] if len(heads) == 1 else part[heads]
