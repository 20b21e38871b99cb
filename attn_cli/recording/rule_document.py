"""A rule as an object of JSON, with its arrays beside, and back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from attn_cli.fields import (
    COUNT,
    FINITE,
    FLAG,
    INTEGER,
    NUMBER,
    TEXT,
    Field,
    Schema,
    each,
    made,
    object_schema,
    or_none,
)
from attn_cli.kernel.definition import masks
from attn_cli.kernel.definition.bias import Alibi, BiasSum, GivenBias
from attn_cli.kernel.definition.mask import Mask
from attn_cli.kernel.definition.masks import Given, Intersection, Keys, Submask
from attn_cli.kernel.definition.rule import Rule, UnknownRule

Put = Callable[[np.ndarray], str]
"""Stores an array, and says under which name."""

_DEEPEST = 8  # masks in masks, in a file
_FARTHEST = 2**31  # positions in a file
_OF_NUMBERS: dict[str, type[Any]] = {  # masks that their numbers say whole, by the names of their classes
    form.__name__.lower(): form
    for form in vars(masks).values()
    if is_dataclass(form) and isinstance(form, type) and all(field.type in (int, bool) for field in fields(form))
}


_RULE = (
    Field("known", FLAG, "false where weights alone were seen"),
    Field("scale", FINITE, "the factor on q k"),
    Field("softcap", NUMBER, "c in c tanh(score / c); null for none"),
    Field("softmax", FLAG, "whether weights are normalised"),
    Field("bias", {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/bias"}]}),
    Field("mask", {"$ref": "#/$defs/mask"}),
    Field("sink", or_none(TEXT), "the array of a learned score per head; null for none"),
)
RULE = object_schema(_RULE)


def _of_kind(kinds: Sequence[str], properties: Schema) -> Schema:
    return {"type": "object", "required": ["kind"], "properties": {"kind": {"enum": [*kinds]}, **properties}}


BIAS = _of_kind(
    ("sum", "alibi", "given", "array"),
    {"parts": each({"$ref": "#/$defs/bias"}), "slopes": TEXT, "offset": INTEGER, "numbers": TEXT},
)
MASK = _of_kind(
    (*_OF_NUMBERS, "keys", "given", "all", "part"),
    {
        **{one.name: FLAG if one.type is bool else INTEGER for form in _OF_NUMBERS.values() for one in fields(form)},
        "bits": TEXT | {"description": "the array of packed booleans"},
        "shape": each(COUNT),
        "words": TEXT,
        "masks": each({"$ref": "#/$defs/mask"}),
        "mask": {"$ref": "#/$defs/mask"},
        "rows": INTEGER,
        "columns": INTEGER,
        "keys": INTEGER,
    },
)


def rule_document(rule: Rule, put: Put) -> dict[str, Any]:
    """A rule (scale, softcap, bias, mask, sink) as JSON, in which NumPy arrays stand by name."""
    stored = {
        "known": not isinstance(rule, UnknownRule),
        "scale": float(rule.scale),
        "softcap": None if rule.softcap is None else float(rule.softcap),
        "softmax": rule.softmax,
        "bias": _bias_document(rule.bias, put),
        "mask": _mask_document(rule.mask, put),
        "sink": None if rule.sink is None else put(rule.sink),
    }
    return made(_RULE, stored)


def rule_of_document(document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Rule:
    """A rule (scale, softcap, bias, mask, sink) from a recording's JSON and the arrays that it names."""
    kind = Rule if document["known"] else UnknownRule
    cap, sink = document["softcap"], document["sink"]
    return kind(
        scale=float(document["scale"]),
        softcap=None if cap is None else float(cap),
        bias=_bias(document["bias"], arrays),
        mask=_mask(document["mask"], arrays, _DEEPEST),
        sink=None if sink is None else arrays[sink],
        softmax=bool(document["softmax"]),
    )


def _bias_document(bias: object, put: Put) -> dict[str, Any] | None:
    match bias:
        case None:
            return None
        case BiasSum(parts=parts):
            return {"kind": "sum", "parts": [_bias_document(part, put) for part in parts]}
        case Alibi(slopes=slopes, offset=offset):
            return {"kind": "alibi", "slopes": put(slopes), "offset": offset}
        case GivenBias(numbers=numbers):
            return {"kind": "given", "numbers": put(numbers)}
    return {"kind": "array", "numbers": put(np.asarray(bias))}


def _bias(document: Mapping[str, Any] | None, arrays: Mapping[str, np.ndarray]) -> object:
    if document is None:
        return None
    match document["kind"]:
        case "sum":
            parts = [_bias(part, arrays) for part in document["parts"]]
            if not parts or any(isinstance(part, BiasSum | None) for part in parts):
                raise ValueError("a bias of no parts")
            return BiasSum(parts)  # type: ignore[arg-type]
        case "alibi":
            return Alibi(arrays[document["slopes"]], _place(document["offset"]))
        case "given":
            return GivenBias(arrays[document["numbers"]])
        case "array":
            return arrays[document["numbers"]]
    raise ValueError(f"no kind of bias: {document['kind']!r}")


def _mask_document(mask: Mask, put: Put) -> dict[str, Any]:
    match mask:
        case Keys(real=real):
            return {"kind": "keys", "shape": list(real.shape), "bits": put(np.packbits(real))}
        case Given(cells=cells, words=words):
            return {"kind": "given", "shape": list(cells.shape), "bits": put(np.packbits(cells)), "words": words}
        case Intersection(masks=masks):
            return {"kind": "all", "masks": [_mask_document(part, put) for part in masks]}
        case Submask(mask=inner, rows=rows, columns=columns, keys=keys):
            return {"kind": "part", "mask": _mask_document(inner, put), "rows": rows, "columns": columns, "keys": keys}
    for kind, form in _OF_NUMBERS.items():
        if type(mask) is form:
            return {"kind": kind, **vars(mask)}
    raise TypeError(f"a mask that can't be written: {mask}")


def _mask(document: Mapping[str, Any], arrays: Mapping[str, np.ndarray], depth: int) -> Mask:
    if depth == 0:
        raise ValueError("masks in masks without an end")

    def number(name: str) -> int:
        return _place(document[name])

    match document["kind"]:
        case "keys":
            return Keys(_booleans(document, arrays, 1))
        case "given":
            return Given(_booleans(document, arrays, len(document["shape"])), str(document["words"]))
        case "all":
            return Intersection(tuple(_mask(part, arrays, depth - 1) for part in document["masks"]))
        case "part":
            inner = _mask(document["mask"], arrays, depth - 1)
            return Submask(inner, number("rows"), number("columns"), number("keys"))
        case kind if kind in _OF_NUMBERS:
            form = _OF_NUMBERS[kind]
            types = {field.name: field.type for field in fields(form)}
            values = {name: bool(document[name]) if type is bool else number(name) for name, type in types.items()}
            return form(**values)
    raise ValueError(f"no kind of mask: {document['kind']!r}")


def _place(number: object) -> int:
    if not isinstance(number, int) or abs(number) >= _FARTHEST:
        raise ValueError(f"no place in a text: {number!r}")
    return number


def _booleans(document: Mapping[str, Any], arrays: Mapping[str, np.ndarray], axes: int) -> np.ndarray:
    bits, shape = arrays[document["bits"]], tuple(map(_place, document["shape"]))
    count = int(np.prod([1, *shape], dtype=object))
    if axes not in (1, 2, 3) or len(shape) != axes or min(shape) < 0 or bits.shape != (-(-count // 8),):
        raise ValueError(f"{bits.size} bytes of bits for a mask of {shape}")
    return np.unpackbits(bits, count=count).astype(bool).reshape(shape)
