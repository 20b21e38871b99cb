"""A layer's rule in NumPy, as a recording keeps it, and the rule of one head alone."""

from dataclasses import replace

import numpy as np

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.call import Call
from attn_cli.kernel.definition.bias import Alibi, Bias, BiasSum, GivenBias
from attn_cli.kernel.definition.mask import Intervals, Mask, dense
from attn_cli.kernel.definition.masks import Given, Intersection, Keys, MaskFunction, Submask
from attn_cli.kernel.definition.rule import Rule


def rule_in_numpy(call: Call) -> Rule:
    """An attention call's rule (scale, softcap, bias, mask, sink) with NumPy arrays."""
    rule = call.rule
    sink = None if rule.sink is None else to_numpy(rule.sink)
    return replace(rule, bias=_bias(rule.bias, call), mask=_mask(rule.mask, call, call.n, call.m), sink=sink)


def rule_of_heads(rule: Rule, heads: list[int]) -> Rule:
    """The rule (scale, softcap, bias, mask, sink), in NumPy, of some of the heads alone, by their indices."""
    sink = None if rule.sink is None else rule.sink[heads]
    return replace(rule, bias=_heads_of_bias(rule.bias, heads), mask=_heads_of_mask(rule.mask, heads), sink=sink)


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


def _mask(mask: Mask, call: Call, n: int, m: int) -> Mask:
    match mask:
        case Keys(real=real):
            return Keys(to_numpy(real))
        case Given(cells=cells, words=words):
            return Given(to_numpy(cells), words)
        case Intersection(masks=masks):
            return Intersection(tuple(_mask(part, call, n, m) for part in masks))
        case Submask(mask=inner, rows=rows, columns=columns, keys=keys):
            return replace(mask, mask=_mask(inner, call, rows + n, columns + keys))
        case MaskFunction() | Intervals():
            return Given(to_numpy(dense(mask, n, m, like=call.like)), str(mask))
    return mask


def _heads_of_bias(bias: object, heads: list[int]) -> object:
    match bias:
        case None:
            return None
        case BiasSum(parts=parts):
            return BiasSum([_heads_of_bias(part, heads) for part in parts])  # type: ignore[misc]
        case Alibi(slopes=slopes, offset=offset):
            return Alibi(slopes[heads], offset)
        case GivenBias(numbers=numbers):
            return GivenBias(_heads_of_cells(numbers, heads))
    return _heads_of_cells(bias, heads)  # type: ignore[arg-type]


def _heads_of_mask(mask: Mask, heads: list[int]) -> Mask:
    match mask:
        case Given(cells=cells):
            return replace(mask, cells=_heads_of_cells(cells, heads))
        case Intersection(masks=masks):
            return Intersection(tuple(_heads_of_mask(part, heads) for part in masks))
        case Submask(mask=inner):
            return replace(mask, mask=_heads_of_mask(inner, heads))
    return mask


def _heads_of_cells(cells: np.ndarray, heads: list[int]) -> np.ndarray:
    if cells.ndim < 3 or cells.shape[0] == 1:
        return cells
    return cells[heads[0] : heads[0] + 1] if len(heads) == 1 else cells[heads]
