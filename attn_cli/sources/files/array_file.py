"""A user's matrix, read from a file or from stdin: read_array; and the precision it was stored in."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from safetensors import deserialize, safe_open

from attn_cli.arrays import from_bfloat16
from attn_cli.errors import InputError
from attn_cli.sources.files.checks import (
    Matrix,
    as_floats,
    require_dtype,
    require_finite,
    require_memory,
    require_shape,
)
from attn_cli.sources.files.npy import npy_array, npz_arrays
from attn_cli.sources.files.parse_errors import SAVE_AGAIN, parse_errors
from attn_cli.sources.files.raw import Bytes, Raw, is_file, kind_of, open_raw
from attn_cli.sources.files.text import decode_text, is_typed, text_array, typed_array
from attn_cli.text import counted, excerpt, listed

_ALIASES = {"q": ("query", "queries"), "k": ("key", "keys"), "v": ("value", "values"), "mask": ("attention_mask",)}


def read_array(spec: str, *, name: str, stdin: BinaryIO | None = None, allow_nonfinite: bool = False) -> Matrix:
    """The matrix that `spec` names: two axes or more, real numbers, read-only.

    `spec` is a path, `path.npz:member` (also for .safetensors and .json objects), `-` for the bytes on `stdin`, or the
    numbers themselves: `1 0; 0 1`.
    `name` is the role ("q", "mask" ...): it picks the array where a file holds several, and messages use it.
    float16, 32 and 64 keep their dtype, bfloat16 and float8 become float32, the rest float64; a mask may stay bool.
    -inf may stand in a mask, other NaN and Inf only with `allow_nonfinite`. A large .npy or .safetensors is mapped.
    Raises InputError for all that is wrong with the input, LimitError for what exceeds the memory.

    >>> import io
    >>> read_array("-", name="q", stdin=io.BytesIO(b"1,2\\n3,4"))
    array([[1., 2.],
           [3., 4.]])
    """
    raw = None if is_typed(spec) else open_raw(spec, stdin)
    with parse_errors(name if raw is None else raw.label):
        array, label = (typed_array(spec, name), name) if raw is None else _read(raw, name)
        require_dtype(array.dtype, label)
        require_shape(array.shape, name, label)
        array = as_floats(array, name, label)
        if not allow_nonfinite:
            require_finite(array, name, label)
    # read-only whether mapped or not, so that writing fails for small files as for large ones
    array.flags.writeable = False
    return array


def array_names(file: str) -> list[str]:
    """The names of the arrays in a file, by which it gives several; [] for a file of one array, and path:member."""
    raw = open_raw(file)
    with parse_errors(raw.label):
        return [] if raw.member is not None else [name for name in named_arrays(raw) if name]


def widened_from(spec: str, *, name: str) -> str | None:
    """The precision in which a file stores an array that `read_array` widens, such as "bfloat16"; None for others."""
    if not is_file(spec):  # a pipe is read once
        return None
    raw = open_raw(spec)
    if kind_of(raw) != ".safetensors":
        return None
    entries, _ = _tensor_entries(raw)
    dtype = entries[_choose(list(entries), raw, name)]["dtype"]
    return WIDENED[dtype][0] if dtype in WIDENED else None


def _read(raw: Raw, role: str) -> tuple[Matrix, str]:
    arrays = named_arrays(raw)
    name = _choose(list(arrays), raw, role)
    label = raw.label if len(arrays) == 1 else f"{raw.label}:{excerpt(name, 60)}"
    return arrays[name](label), label


def named_arrays(raw: Raw) -> dict[str, Callable[[str], Matrix]]:
    """Functions that read the arrays of a file, by name; "" is the name of an array without one."""
    match kind_of(raw):
        case ".npz":
            return npz_arrays(raw)
        case ".safetensors":
            entries, numbers = _tensor_entries(raw)
            return {name: partial(_tensor, numbers, entry) for name, entry in entries.items()}
        case "JSON":
            value = _parse_json(decode_text(raw.data, raw.label), raw.label)
            if not isinstance(value, dict):
                return {"": partial(_list_array, value)}
            return {name: partial(_list_array, item) for name, item in value.items() if isinstance(item, list)}
        case ".npy":
            return {"": partial(npy_array, raw.data)}
        case _:
            return {"": partial(text_array, raw.data)}


def _parse_json(text: str, label: str) -> Any:
    """The JSON value with every number as a float; InputError for repeated keys."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key, item in pairs:
            if key in members:
                raise InputError(f"{label} has the key {excerpt(key, 60)!r} twice", "keep the one that is meant")
            members[key] = item
        return members

    # integers are parsed as floats, which they become anyway: int() refuses more than 4300 digits
    return json.loads(text, parse_int=float, object_pairs_hook=unique)


def _list_array(value: Any, label: str) -> Matrix:
    array = np.array(value)
    if array.dtype.kind not in "fb":
        raise InputError(f"{label} holds more than numbers", "expected lists of lists of numbers, all as long")
    return array


def _choose(names: Sequence[str], raw: Raw, role: str) -> str:
    """The array to read from a file: its member if one is named, else the only one, else the one that is `role`."""
    if not names:
        raise InputError(f"{raw.label} holds no arrays", "save at least one array in it")
    member = excerpt(raw.member or "", 60)
    held = "one array and no names" if list(names) == [""] else listed(map(excerpt, names))
    if raw.member is not None and raw.member not in names:
        raise InputError(f"{raw.label} has no array called {member!r}", f"it holds {held}")
    chosen = raw.member if raw.member is not None else names[0] if len(names) == 1 else member_for(names, role)
    if chosen is None:
        line = f"{raw.label} holds {counted(len(names), 'array')} and it isn't clear which is {role}: {held}"
        raise InputError(line, f"choose one: {raw.label}:NAME")
    return chosen


def member_for(names: Sequence[str], role: str) -> str | None:
    """The array whose name says that it is `role`: k is also K, key, keys; None where none or several do.

    >>> member_for(["Query", "K"], "q")
    'Query'
    """
    if role in names:
        return role
    for word in (role, *_ALIASES.get(role, ())):
        fitting = [name for name in names if name.casefold().replace("_", "") == word.replace("_", "")]
        if len(fitting) == 1:
            return fitting[0]
    return None


_DTYPES = {
    **{"F16": "<f2", "F32": "<f4", "F64": "<f8", "BOOL": "|b1", "C64": "<c8"},
    **{"I8": "|i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "|u1", "U16": "<u2", "U32": "<u4", "U64": "<u8"},
    # these three are widened to float32 below
    **{"BF16": "<u2", "F8_E5M2": "|u1", "F8_E4M3": "|u1"},
}


def _tensor_entries(raw: Raw) -> tuple[dict[str, dict[str, Any]], Bytes]:
    """Each tensor's dtype, shape and offsets, and the bytes of the numbers, once the library finds no fault."""
    offset = 8 + int.from_bytes(raw.data[:8].tobytes(), "little")
    if raw.data.size < offset:
        detail = f"the header takes {offset} bytes, {raw.data.size} are there"
        raise InputError(f"{raw.label} is truncated, or not a .safetensors file: {detail}", SAVE_AGAIN)
    if raw.path is not None:
        with safe_open(raw.path, framework="np"):
            pass
    else:
        deserialize(raw.data.tobytes())  # type: ignore[no-untyped-call]
    entries = _parse_json(raw.data[8:offset].tobytes().decode("utf-8"), raw.label)
    entries.pop("__metadata__", None)
    return entries, raw.data[offset:]


def _tensor(numbers: Bytes, entry: Mapping[str, Any], label: str) -> Matrix:
    kind = entry["dtype"]
    if kind not in _DTYPES:
        raise InputError(f"{label} has dtype {kind}", "save it as float32, float16 or bfloat16")
    begin, end = map(int, entry["data_offsets"])
    array: Matrix = numbers[begin:end].view(_DTYPES[kind]).reshape([int(length) for length in entry["shape"]])
    if kind not in WIDENED:
        return array
    require_memory(4 * array.size, label)
    return WIDENED[kind][1](array)


def _from_float8_e5m2(bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float32)


def _from_float8_e4m3(bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    code = np.arange(256)
    exponent, fraction = code >> 3 & 15, code & 7
    size = np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0 ** (exponent - 7))
    size[code & 127 == 127] = np.nan
    return np.where(code < 128, size, -size).astype(np.float32)[bits]


WIDENED: dict[str, tuple[str, Callable[[Any], Matrix]]] = {
    "BF16": ("bfloat16", from_bfloat16),
    "F8_E5M2": ("float8_e5m2", _from_float8_e5m2),
    "F8_E4M3": ("float8_e4m3", _from_float8_e4m3),
}
