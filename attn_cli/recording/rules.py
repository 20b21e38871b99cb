"""A layer's rule in NumPy, of all its heads or one; as an object of JSON, with its arrays beside, and back."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.call import Call
from attn_cli.kernel.definition.bias import Alibi, Bias, BiasSum
from attn_cli.kernel.definition.mask import Mask, dense, given_mask
from attn_cli.kernel.definition.rule import Rule, UnknownRule

Put = Callable[[np.ndarray], str]
"""Stores an array, and says under which name."""

_DEEPEST = 16  # masks in masks and biases in biases, in a file
_FARTHEST = 2**31  # positions in a file

_ARRAYS = {"array": "numbers", "alibi": "slopes"}  # of a bias by its kind


def rule_document(rule: Rule, put: Put) -> dict[str, Any]:
    """A rule (scale, softcap, bias, mask, sink) as JSON, in which NumPy arrays stand by name."""
    return {
        "known": not isinstance(rule, UnknownRule),
        "scale": float(rule.scale),
        "softcap": None if rule.softcap is None else float(rule.softcap),
        "softmax": rule.softmax,
        "bias": _bias_document(rule.bias, put),
        "mask": _mask_document(rule.mask, put),
        "sink": None if rule.sink is None else put(rule.sink),
    }


def rule_of_document(document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Rule:
    """A rule (scale, softcap, bias, mask, sink) from a recording's JSON and the arrays that it names."""
    kind = Rule if document["known"] else UnknownRule
    cap, sink = document["softcap"], document["sink"]
    return kind(
        scale=float(document["scale"]),
        softcap=None if cap is None else float(cap),
        bias=_bias_of(document["bias"], arrays, _DEEPEST),
        mask=_mask_of(document["mask"], arrays, _DEEPEST),
        sink=None if sink is None else arrays[sink],
        softmax=bool(document["softmax"]),
    )


def _mask_document(mask: Mask, put: Put) -> dict[str, Any]:
    stored: dict[str, Any] = {name: getattr(mask, name) for name in ("kind", "before", "after", "prefix")}
    stored |= {"numbers": list(mask.numbers), "parts": [_mask_document(part, put) for part in mask.parts]}
    for name in ("keys", "cells"):
        x: Any = getattr(mask, name)
        stored[name] = None if x is None else {"shape": list(x.shape), "bits": put(np.packbits(x))}
    return stored


def _mask_of(document: Mapping[str, Any], arrays: Mapping[str, np.ndarray], depth: int) -> Mask:
    if depth == 0:
        raise ValueError("masks in masks without an end")
    kind, numbers, prefix = document["kind"], document["numbers"], document["prefix"]
    ends = [x for x in (document["before"], document["after"]) if x is not None]
    if not isinstance(kind, str) or not all(map(_is_place, (*numbers, *ends, prefix))):
        raise ValueError(f"no mask: {kind!r}")
    keys, cells = _booleans(document["keys"], arrays, 1), _booleans(document["cells"], arrays, 2, 3)
    parts = tuple(_mask_of(part, arrays, depth - 1) for part in document["parts"])
    return Mask(kind, tuple(numbers), document["before"], document["after"], prefix, keys, cells, parts)


def _bias_document(bias: Any, put: Put) -> dict[str, Any] | None:
    match bias:
        case None:
            return None
        case BiasSum(parts=parts):
            return {"kind": "sum", "parts": [_bias_document(part, put) for part in parts]}
        case Alibi(slopes=slopes, offset=offset):
            return {"kind": "alibi", "slopes": put(slopes), "offset": offset}
    return {"kind": "array", "numbers": put(bias)}


def _bias_of(document: Mapping[str, Any] | None, arrays: Mapping[str, np.ndarray], depth: int) -> Any:
    if document is None:
        return None
    if depth == 0:
        raise ValueError("biases in biases without an end")
    kind = document["kind"]
    if kind == "sum":
        parts = [_bias_of(part, arrays, depth - 1) for part in document["parts"]]
        if not parts or any(part is None for part in parts):
            raise ValueError("a sum of what is no bias")
        return BiasSum(parts)
    if kind not in _ARRAYS or (kind == "alibi" and not _is_place(document["offset"])):
        raise ValueError(f"no bias: {kind!r}")
    numbers = arrays[document[_ARRAYS[kind]]]
    return numbers if kind == "array" else Alibi(numbers, document["offset"])


def _is_place(value: object) -> bool:
    return isinstance(value, int) and abs(value) < _FARTHEST


def _booleans(document: Mapping[str, Any] | None, arrays: Mapping[str, np.ndarray], *axes: int) -> np.ndarray | None:
    if document is None:
        return None
    bits, shape = arrays[document["bits"]], tuple(document["shape"])
    if len(shape) not in axes or not all(_is_place(size) and size >= 0 for size in shape):
        raise ValueError(f"booleans of shape {shape}")
    count = int(np.prod(shape, dtype=object))
    if bits.shape != (-(-count // 8),):
        raise ValueError(f"{bits.size} bytes of bits for a mask of {shape}")
    return np.unpackbits(bits, count=count).astype(bool).reshape(shape)


def rule_in_numpy(call: Call) -> Rule:
    """An attention call's rule (scale, softcap, bias, mask, sink) with NumPy arrays."""
    sink = None if call.rule.sink is None else to_numpy(call.rule.sink)
    bias = _bias_by(call.rule.bias, to_numpy, lambda x: np.array(to_numpy(at_least_float32(x))), (call.n, call.m))
    return replace(call.rule, bias=bias, mask=_mask(call.rule.mask, call), sink=sink)


def rule_of_heads(rule: Rule, heads: list[int]) -> Rule:
    """The rule (scale, softcap, bias, mask, sink), in NumPy, of some of the heads alone, by their indices."""
    sink = None if rule.sink is None else rule.sink[heads]
    bias = _bias_by(rule.bias, lambda slopes: slopes[heads], lambda x: _cut(x, heads), (0, 0))
    return replace(rule, bias=bias, mask=_mask_of_heads(rule.mask, heads), sink=sink)


def _bias_by(bias: Any, slopes: Callable[[Any], Any], numbers: Callable[[Any], Any], size: tuple[int, int]) -> Any:
    """The bias with its arrays changed by two functions; one of another class by its cells, (n, m) of them."""
    match bias:
        case None:
            return None
        case BiasSum():
            return BiasSum([_bias_by(part, slopes, numbers, size) for part in bias.parts])
        case Alibi():
            return Alibi(slopes(bias.slopes), bias.offset)
        case Bias():
            return numbers(bias.cells(0, size[0], 0, size[1]))
    return numbers(bias)


def _mask(mask: Mask, call: Call) -> Mask:
    if callable(mask.cells):
        return given_mask(to_numpy(dense(mask, call.n, call.m, like=call.like)), str(mask))
    keys, cells = (None if x is None else to_numpy(x) for x in (mask.keys, mask.cells))
    return replace(mask, keys=keys, cells=cells, parts=tuple(_mask(part, call) for part in mask.parts))


def _mask_of_heads(mask: Mask, heads: list[int]) -> Mask:
    return replace(mask, cells=_cut(mask.cells, heads), parts=tuple(_mask_of_heads(part, heads) for part in mask.parts))


def _cut(x: Any, heads: list[int]) -> Any:
    if x is None or x.ndim < 3 or x.shape[0] == 1:
        return x
    return x[heads[0] : heads[0] + 1] if len(heads) == 1 else x[heads]
