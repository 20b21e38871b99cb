"""A rule as an object of JSON, with its arrays beside, and back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from attn_cli.fields import FINITE, FLAG, INTEGER, NUMBER, TEXT, Field, Schema, each, made, object_schema, or_none
from attn_cli.kernel.definition import bias
from attn_cli.kernel.definition.bias import Bias
from attn_cli.kernel.definition.mask import Mask
from attn_cli.kernel.definition.rule import Rule, UnknownRule

Put = Callable[[np.ndarray], str]
"""Stores an array, and says under which name."""

_DEEPEST = 16  # masks in masks and their lists, in a file
_FARTHEST = 2**31  # positions in a file
_FORMS: dict[str, type[Any]] = {  # biases by the names of their classes
    form.__name__.lower(): form
    for form in vars(bias).values()
    if isinstance(form, type) and form.__module__ == bias.__name__ and is_dataclass(form)
}
_ARRAY, _BITS = "array", "bits"

_RULE = (
    Field("known", FLAG, "false where weights alone were seen"),
    Field("scale", FINITE, "the factor on q k"),
    Field("softcap", NUMBER, "c in c tanh(score / c); null for none"),
    Field("softmax", FLAG, "whether weights are normalised"),
    Field("bias", {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/part"}]}),
    Field("mask", {"$ref": "#/$defs/mask"}),
    Field("sink", or_none(TEXT), "the array of a learned score per head; null for none"),
)
RULE = object_schema(_RULE)
PART: Schema = {
    "type": "object",
    "description": "a bias with its values, an array by its name, or booleans: their shape, and packed bits",
    "required": ["kind"],
    "properties": {"kind": {"enum": [*_FORMS, _ARRAY, _BITS]}, "numbers": TEXT, "bits": TEXT, "shape": each({})},
}
_BOOLEANS = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/part"}]}
_MASK = (
    Field("kind", TEXT, "causal, window, padding ..., with its numbers"),
    Field("numbers", each(INTEGER)),
    Field("before", or_none(INTEGER), "query i sees keys after i - before; null for all"),
    Field("after", or_none(INTEGER), "and before i + after; null for all"),
    Field("prefix", INTEGER, "or before this one"),
    Field("keys", _BOOLEANS, "the keys that are seen; null for all"),
    Field("cells", _BOOLEANS, "the cells that are seen; null for all"),
    Field("parts", each({"$ref": "#/$defs/mask"}), "masks that must all let a key be seen"),
)
MASK = object_schema(_MASK)


def rule_document(rule: Rule, put: Put) -> dict[str, Any]:
    """A rule (scale, softcap, bias, mask, sink) as JSON, in which NumPy arrays stand by name."""
    stored = {
        "known": not isinstance(rule, UnknownRule),
        "scale": float(rule.scale),
        "softcap": None if rule.softcap is None else float(rule.softcap),
        "softmax": rule.softmax,
        "bias": _document(rule.bias, put),
        "mask": _mask_document(rule.mask, put),
        "sink": None if rule.sink is None else put(rule.sink),
    }
    return made(_RULE, stored)


def rule_of_document(document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Rule:
    """A rule (scale, softcap, bias, mask, sink) from a recording's JSON and the arrays that it names."""
    kind = Rule if document["known"] else UnknownRule
    cap, sink = document["softcap"], document["sink"]
    added, mask = _thing(document["bias"], arrays, _DEEPEST), _mask_of(document["mask"], arrays, _DEEPEST)
    if not isinstance(added, np.ndarray | Bias | None):
        raise ValueError("a rule with another bias")
    return kind(
        scale=float(document["scale"]),
        softcap=None if cap is None else float(cap),
        bias=added,
        mask=mask,
        sink=None if sink is None else arrays[sink],
        softmax=bool(document["softmax"]),
    )


def _mask_document(mask: Mask, put: Put) -> dict[str, Any]:
    stored = {name: getattr(mask, name) for name in ("kind", "before", "after", "prefix")}
    stored |= {"numbers": list(mask.numbers), "parts": [_mask_document(part, put) for part in mask.parts]}
    return made(_MASK, stored | {name: _document(getattr(mask, name), put) for name in ("keys", "cells")})


def _mask_of(document: Mapping[str, Any], arrays: Mapping[str, np.ndarray], depth: int) -> Mask:
    if depth == 0:
        raise ValueError("masks in masks without an end")
    kind, numbers, prefix = document["kind"], document["numbers"], document["prefix"]
    ends = [x for x in (document["before"], document["after"]) if x is not None]
    keys, cells = (_thing(document[name], arrays, depth) for name in ("keys", "cells"))
    known = [(keys, (1,)), (cells, (2, 3))]
    fits = all(x is None or (isinstance(x, np.ndarray) and x.dtype == bool and x.ndim in ndim) for x, ndim in known)
    if not isinstance(kind, str) or not fits or not all(_fits(x, int) for x in (*numbers, *ends, prefix)):
        raise ValueError(f"no mask: {kind!r}")
    parts = tuple(_mask_of(part, arrays, depth - 1) for part in document["parts"])
    return Mask(kind, tuple(numbers), document["before"], document["after"], prefix, keys, cells, parts)


def _document(thing: Any, put: Put) -> Any:
    if isinstance(thing, np.ndarray) and thing.dtype == bool:
        return {"kind": _BITS, "shape": list(thing.shape), "bits": put(np.packbits(thing))}
    if isinstance(thing, np.ndarray):
        return {"kind": _ARRAY, "numbers": put(thing)}
    if isinstance(thing, list | tuple):
        return [_document(part, put) for part in thing]
    if thing is None or isinstance(thing, bool | int | str):
        return thing
    kind = type(thing).__name__.lower()
    return {"kind": kind, **{one.name: _document(getattr(thing, one.name), put) for one in fields(_FORMS[kind])}}


def _thing(document: Any, arrays: Mapping[str, np.ndarray], depth: int) -> Any:
    if depth == 0:
        raise ValueError("biases in biases without an end")
    if isinstance(document, list):
        return tuple(_thing(part, arrays, depth - 1) for part in document)
    if not isinstance(document, dict):
        return document
    kind = document["kind"]
    if kind == _ARRAY:
        return arrays[document["numbers"]]
    if kind == _BITS:
        return _booleans(document, arrays)
    if kind not in _FORMS:
        raise ValueError(f"no kind of bias: {kind!r}")
    form = _FORMS[kind]
    values = {one.name: _thing(document[one.name], arrays, depth - 1) for one in fields(form)}
    if unfit := [one.name for one in fields(form) if not _fits(values[one.name], one.type)]:
        raise ValueError(f"no {unfit[0]} of a {kind}")
    return form(**values)


def _fits(value: Any, expected: Any) -> bool:
    if expected is int:
        return isinstance(value, int) and abs(value) < _FARTHEST
    if expected == Sequence[Bias]:
        return isinstance(value, tuple) and all(isinstance(one, Bias) for one in value)
    return isinstance(value, np.ndarray)


def _booleans(document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    bits, shape = arrays[document["bits"]], tuple(document["shape"])
    if len(shape) not in (1, 2, 3) or not all(_fits(size, int) and size >= 0 for size in shape):
        raise ValueError(f"booleans of shape {shape}")
    count = int(np.prod(shape, dtype=object))
    if bits.shape != (-(-count // 8),):
        raise ValueError(f"{bits.size} bytes of bits for a mask of {shape}")
    return np.unpackbits(bits, count=count).astype(bool).reshape(shape)
