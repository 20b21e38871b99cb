"""Arrays in .safetensors, bfloat16 and float8 included, without torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, deserialize, safe_open

from attn_cli.errors import InputError
from attn_cli.sources.files.checks import Matrix, require_dtype, require_memory, require_shape, view_as
from attn_cli.sources.files.json_lists import parse_json
from attn_cli.sources.files.members import choose_member
from attn_cli.sources.files.raw import Raw
from attn_cli.text import excerpt

_DTYPES = {
    **{"F16": "<f2", "F32": "<f4", "F64": "<f8", "BOOL": "|b1", "C64": "<c8"},
    **{"I8": "|i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "|u1", "U16": "<u2", "U32": "<u4", "U64": "<u8"},
    # these three are widened to float32 below
    **{"BF16": "<u2", "F8_E5M2": "|u1", "F8_E4M3": "|u1"},
}


def read_safetensors(raw: Raw, name: str) -> tuple[Matrix, str]:
    """An array of a .safetensors file with its label: `raw.member`, the only one, or `name`."""
    tensors, offset = _header(raw)
    member = choose_member(list(tensors), raw.member, name, raw.label)
    label = raw.label if len(tensors) == 1 else f"{raw.label}:{excerpt(member, 60)}"
    entry = tensors[member]
    if entry["dtype"] not in _DTYPES:
        raise InputError(f"{label} has dtype {entry['dtype']}", "save it as float32, float16 or bfloat16")
    dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(map(int, entry["shape"]))
    require_dtype(dtype, label)
    require_shape(shape, name, label)
    begin, end = map(int, entry["data_offsets"])
    array = view_as(raw.data[offset + begin : offset + end], dtype, shape)
    if entry["dtype"] not in _WIDEN:
        return array, label
    require_memory(4 * array.size, label)
    return _WIDEN[entry["dtype"]](array), label


def safetensors_names(raw: Raw) -> list[str]:
    """The names of the arrays of a .safetensors file."""
    return list(_header(raw)[0])


def stored_precision(raw: Raw, name: str) -> str | None:
    """The precision in which a .safetensors file stores an array that is widened on reading, such as "bfloat16"."""
    tensors, _ = _header(raw)
    return _WIDENED.get(tensors[choose_member(list(tensors), raw.member, name, raw.label)]["dtype"])


def _header(raw: Raw) -> tuple[dict[str, Any], int]:
    """Each tensor's dtype, shape and offsets, and the byte where numbers begin, once the library finds no fault."""
    offset = 8 + int.from_bytes(raw.data[:8].tobytes(), "little")
    if raw.data.size < offset:
        detail = f"the header takes {offset} bytes, {raw.data.size} are there"
        raise InputError(f"{raw.label} is truncated, or not a .safetensors file: {detail}", _AGAIN)
    try:
        if raw.path is not None:
            with safe_open(raw.path, framework="np"):
                pass
        else:
            deserialize(raw.data.tobytes())  # type: ignore[no-untyped-call]
    except (SafetensorError, OSError) as error:
        raise InputError(f"{raw.label} can't be read: {excerpt(str(error))}", _AGAIN) from None
    tensors = parse_json(raw.data[8:offset].tobytes().decode("utf-8"), raw.label)
    tensors.pop("__metadata__", None)
    return tensors, offset


_AGAIN = "it may be truncated or still being written: save it again"


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


_WIDEN: dict[str, Callable[[Any], Matrix]] = {
    "BF16": _from_bfloat16,
    "F8_E5M2": _from_float8_e5m2,
    "F8_E4M3": _from_float8_e4m3,
}
_WIDENED = {"BF16": "bfloat16", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3"}
