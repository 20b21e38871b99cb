"""Checks of every matrix, whatever file it came from: real numbers, two axes or more, finite, within memory."""

from typing import Any

import numpy as np
import numpy.typing as npt

from attn_cli.errors import InputError
from attn_cli.sources.files.parse_errors import pickle_error
from attn_cli.sources.memory import check_memory
from attn_cli.text import excerpt

Matrix = npt.NDArray[Any]

_VECTORS = ("mask", "sink", "latent_norm")  # that may have one axis
_CHUNK = 2**20


def require_shape(shape: tuple[int, ...], name: str, label: str) -> None:
    """Raise InputError for a shape of fewer than 2 axes (1 for some), or with an axis of size 0."""
    subject = f"{label}: {name} has shape {shape}"
    if len(shape) < 2 and not (name in _VECTORS and all(shape) and shape):
        hint = f"one row: {name}.reshape(1, -1) · one column: {name}.reshape(-1, 1)"
        raise InputError(f"{subject}, expected at least 2 axes [n, d]", hint)
    if 0 in shape:
        raise InputError(f"{subject}: axis {shape.index(0)} is empty", "expected at least one number on every axis")


def require_dtype(dtype: np.dtype[Any], label: str) -> None:
    """Raise InputError for a dtype of no real numbers: objects, complex, text, dates, structures, unnamed bytes."""
    if dtype.hasobject:
        raise pickle_error(label)
    if dtype.kind in "fiub" and dtype.subdtype is None:
        return
    hint = "save real numbers: float16, float32, float64, whole numbers or bool"
    if dtype.kind == "V" and dtype.names is None and dtype.itemsize <= 2:
        hint = "bfloat16 or float8 saved by ml_dtypes? save it as .safetensors, or as float32"
    raise InputError(f"{label} has dtype {excerpt(str(dtype), 80)}", hint)


def require_memory(size: int, label: str) -> None:
    """Raise LimitError where `size` bytes are more than are free; `label` names the file."""
    hint = "an uncompressed .npy is mapped, not read: save it as that, or save fewer rows"
    check_memory(size, f"the numbers of {label}", hint)


def as_floats(array: Matrix, name: str, label: str) -> Matrix:
    """The array in a float dtype of this machine's byte order: float16, 32 and 64 stay, the rest becomes float64."""
    is_float = array.dtype.kind == "f" and array.dtype.itemsize <= 8
    if array.dtype.kind == "b" and name == "mask":
        return array
    dtype = array.dtype.newbyteorder("=") if is_float else np.dtype(np.float64)
    if dtype == array.dtype:
        return array
    require_memory(array.size * dtype.itemsize, label)
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes Inf, which require_finite reports
        return array.astype(dtype)


def require_finite(array: Matrix, name: str, label: str) -> None:
    """Raise InputError for NaN and Inf, saying how many there are and where the first is; a mask may hold -inf."""
    nans = infs = start = 0
    first: int | None = None
    pieces: Any = np.nditer(array, ("external_loop", "buffered"), order="C", buffersize=_CHUNK)
    for piece in pieces:
        if not np.isfinite(piece).all():
            nan = np.isnan(piece)
            inf = np.isposinf(piece) if name == "mask" else np.isinf(piece)
            nans, infs = nans + int(nan.sum()), infs + int(inf.sum())
            if first is None and nans + infs:
                first = start + int(np.argmax(nan | inf))
        start += piece.size
    if first is None:
        return
    place = [int(axis) for axis in np.unravel_index(first, array.shape)]
    counts = " and ".join(f"{count} {word}" for count, word in ((nans, "NaN"), (infs, "Inf")) if count)
    raise InputError(
        f"{label}: {counts} among {array.size} numbers, the first at {place}",
        "-inf is welcome in a mask" if name == "mask" else "attention takes finite numbers",
    )
