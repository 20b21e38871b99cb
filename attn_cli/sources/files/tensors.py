"""Arrays in .safetensors, bfloat16 and float8 included, without torch."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import deserialize, safe_open

from attn_cli.errors import InputError
from attn_cli.sources.files.checks import Matrix, require_memory
from attn_cli.sources.files.json_document import parse_json
from attn_cli.sources.files.parse_errors import SAVE_AGAIN
from attn_cli.sources.files.raw import Bytes, Raw

_DTYPES = {
    **{"F16": "<f2", "F32": "<f4", "F64": "<f8", "BOOL": "|b1", "C64": "<c8"},
    **{"I8": "|i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "|u1", "U16": "<u2", "U32": "<u4", "U64": "<u8"},
    # these three are widened to float32 below
    **{"BF16": "<u2", "F8_E5M2": "|u1", "F8_E4M3": "|u1"},
}


def tensor_entries(raw: Raw) -> tuple[dict[str, dict[str, Any]], Bytes]:
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
    entries = parse_json(raw.data[8:offset].tobytes().decode("utf-8"), raw.label)
    entries.pop("__metadata__", None)
    return entries, raw.data[offset:]


def safetensors_arrays(raw: Raw) -> dict[str, Callable[[str], Matrix]]:
    """The arrays of a .safetensors file by name: functions of the label in errors, which view or widen them."""
    entries, numbers = tensor_entries(raw)
    return {name: partial(_tensor, numbers, entry) for name, entry in entries.items()}


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


def _from_bfloat16(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    wide = bits.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def _from_float8_e5m2(bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float32)


def _from_float8_e4m3(bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    code = np.arange(256)
    exponent, fraction = code >> 3 & 15, code & 7
    size = np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0 ** (exponent - 7))
    size[code & 127 == 127] = np.nan
    return np.where(code < 128, size, -size).astype(np.float32)[bits]


WIDENED: dict[str, tuple[str, Callable[[Any], Matrix]]] = {
    "BF16": ("bfloat16", _from_bfloat16),
    "F8_E5M2": ("float8_e5m2", _from_float8_e5m2),
    "F8_E4M3": ("float8_e4m3", _from_float8_e4m3),
}
