"""NumPy's own files: .npy, and .npz, which is a zip of them; headers are checked before memory is taken."""

import io
import math
import warnings
import zipfile
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.files.checks import Matrix, require_memory
from attn_cli.sources.files.parse_errors import SAVE_AGAIN, pickle_error
from attn_cli.sources.files.raw import READABLE, Bytes, Raw
from attn_cli.text import counted

# NumPy refuses headers of more than 10,000 characters, so this holds any that can be read.
_LONGEST_HEADER = 2**17


def npy_array(data: Bytes, label: str) -> Matrix:
    """The array in the bytes of a .npy file, as a view of them, of any dtype but Python objects."""
    stream = io.BytesIO(data[:_LONGEST_HEADER].tobytes())
    shape, fortran, dtype = _header(stream, data.size, label)
    numbers = data[stream.tell() :][: math.prod(shape) * dtype.itemsize]
    return numbers.view(dtype).reshape(shape, order="F" if fortran else "C")


def npz_arrays(raw: Raw) -> dict[str, Callable[[str], Matrix]]:
    """The arrays of an .npz file by name: functions of the label in errors, which unpack them."""
    with _archive(raw) as archive:
        entries = archive.namelist()
    names = [entry.removesuffix(".npy") for entry in entries if entry.endswith(".npy")]
    if not names and any(entry.endswith(".pkl") for entry in entries):
        raise pickle_error(raw.label)
    if not names:
        raise InputError(f"{raw.label} is a zip file with no .npy array in it", READABLE)
    return {name: partial(_unpacked, raw, f"{name}.npy") for name in names}


def _unpacked(raw: Raw, entry: str, label: str) -> Matrix:
    with _archive(raw) as archive:
        if archive.getinfo(entry).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(f"{label} is packed in a way that NumPy doesn't write", SAVE_AGAIN)
        with archive.open(entry) as stream:
            shape, _, dtype = _header(stream, archive.getinfo(entry).file_size, label)
        require_memory(math.prod(shape) * dtype.itemsize, label)
        with archive.open(entry) as stream, warnings.catch_warnings(action="ignore"):
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _archive(raw: Raw) -> zipfile.ZipFile:
    return zipfile.ZipFile(raw.path or io.BytesIO(raw.data.tobytes()))


def _header(stream: BinaryIO | Any, size: int, label: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape, the order by columns, and the dtype of a .npy file of `size` bytes, at whose numbers `stream` is."""
    form = np.lib.format
    try:
        # version 3 differs from 2 only in the encoding of field names, and arrays with fields are refused
        read = form.read_array_header_1_0 if form.read_magic(stream) == (1, 0) else form.read_array_header_2_0
        with warnings.catch_warnings(action="ignore"):  # headers written by Python 2
            shape, fortran, dtype = read(stream)
    except Exception:  # of any type; NumPy's own message is left out, since some of them advise to trust the file
        raise InputError(f"{label} has a damaged .npy header", SAVE_AGAIN) from None
    if dtype.hasobject:
        raise pickle_error(label)
    # the header's numbers may have thousands of digits, so the message leaves them out
    if not all(0 <= length < 2**63 for length in shape) or math.prod(shape) * dtype.itemsize >= 2**63:
        raise InputError(f"{label}: the header gives an impossible shape", "save it again with np.save or np.savez")
    promised, there = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if promised > there:
        numbers = f"the header promises {counted(promised, 'byte')}, {there} are there"
        raise InputError(f"{label} is truncated or still being written: {numbers}", "wait for it, or save it again")
    return tuple(map(int, shape)), fortran, dtype
