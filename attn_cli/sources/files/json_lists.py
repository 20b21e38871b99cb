"""Numbers in JSON: nested lists, or an object of them."""

import json
from array import array
from typing import Any

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.files.checks import MOST_AXES, Matrix, require_shape
from attn_cli.sources.files.members import choose_member
from attn_cli.sources.files.raw import Raw
from attn_cli.sources.files.text import decode_text
from attn_cli.text import counted, excerpt

_DEEP = "expected lists of lists of numbers"


def read_json(raw: Raw, name: str) -> tuple[Matrix, str]:
    """The numbers of nested JSON lists as float64 (bool for a mask of true and false), and their JSON path."""
    value, root = parse_json(decode_text(raw.data, raw.label), raw.label), "$"
    if isinstance(value, dict):
        lists = [key for key, item in value.items() if isinstance(item, list)]
        member = choose_member(lists, raw.member, name, raw.label)
        value, root = value[member], f"$.{excerpt(member, 60)}"
    elif raw.member is not None:
        raise InputError(f"{raw.label} holds one array and no names", f"leave out :{excerpt(raw.member, 60)}")
    shape, cell = _shape(value)
    kind = bool if name == "mask" and isinstance(cell, bool) else float
    numbers = array("d")
    _flatten(value, shape, kind, (root, ()), raw.label, numbers)
    require_shape(shape, name, raw.label)
    return np.frombuffer(numbers, np.float64).astype(kind, copy=False).reshape(shape), root


def parse_json(text: str, label: str) -> Any:
    """The JSON value with every number as a float; InputError for invalid JSON and for repeated keys."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key, item in pairs:
            if key in members:
                raise InputError(f"{label} has the key {excerpt(key, 60)!r} twice", "keep the one that is meant")
            members[key] = item
        return members

    try:
        # integers are parsed as floats, which they become anyway: int() refuses more than 4300 digits
        return json.loads(text, parse_int=float, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{label} is not JSON: {error.msg} ({position})", _DEEP) from None
    except RecursionError:
        raise InputError(f"{label} is nested too deeply", _DEEP) from None


def _shape(value: Any) -> tuple[tuple[int, ...], Any]:
    shape: list[int] = []
    while isinstance(value, list) and len(shape) < MOST_AXES:
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape), value


def _flatten(
    value: Any,
    shape: tuple[int, ...],
    kind: type[float],
    place: tuple[str, tuple[int, ...]],
    label: str,
    numbers: "array[float]",
) -> None:
    root, at = place
    if not shape:
        if not isinstance(value, kind):
            raise InputError(f"{label}: {_path(root, at)} is {_noun(value)}, not a number", _DEEP)
        numbers.append(value)
        return
    if not isinstance(value, list):
        raise InputError(f"{label}: {_path(root, at)} is {_noun(value)}, not a list of {shape[0]}", _DEEP)
    if len(value) != shape[0]:
        first = _path(root, (0,) * len(at))
        lengths = f"{_path(root, at)} has {counted(len(value), 'value')}, {first} has {shape[0]}"
        raise InputError(f"{label}: {lengths}", "every list must be as long as its neighbours")
    if len(shape) == 1 and set(map(type, value)) <= {kind}:  # a whole row at once, for speed
        numbers.extend(value)
        return
    for index, item in enumerate(value):
        _flatten(item, shape[1:], kind, (root, (*at, index)), label, numbers)


def _path(root: str, at: tuple[int, ...]) -> str:
    return root + "".join(f"[{index}]" for index in at)


def _noun(value: Any) -> str:
    if isinstance(value, str):
        return f"the string {excerpt(value, 40)!r}"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return "a number" if isinstance(value, float) else json.dumps(value)
