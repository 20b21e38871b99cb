"""NumPy's own files: .npy, and .npz, which is a zip of them."""

import io
import lzma
import math
import tokenize
import warnings
import zipfile
import zlib
from typing import Any

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.files.checks import Matrix, require_dtype, require_memory, require_shape, view_as
from attn_cli.sources.files.kinds import READABLE, pickle_error
from attn_cli.sources.files.members import choose_member
from attn_cli.sources.files.raw import Bytes, Raw
from attn_cli.text import counted

_MAGIC_BYTES = 8
_SAVE_AGAIN = "save it again with np.save or np.savez"

# What zipfile and its decompressors raise over bytes that aren't what they claim
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError)
# What NumPy's header reader raises over a header that isn't one
_HEADER_ERRORS = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, OverflowError, tokenize.TokenError)


def read_npy(data: Bytes, name: str, label: str) -> Matrix:
    """Return the array in the bytes of a .npy file, as a view of them.

    Errors: InputError before anything is allocated, where the header is broken or promises more than is there.
    Source: numpy.lib.format, versions 1.0 to 3.0.
    """
    shape, fortran, dtype, offset = _header(data, label)
    require_dtype(dtype, label)
    # the header's numbers may have thousands of digits, so the message leaves them out
    if not all(0 <= size < 2**63 for size in shape):
        raise InputError(f"{label}: the header gives an impossible shape", _SAVE_AGAIN)
    require_shape(shape, name, label)
    promised_size, actual_size = math.prod(shape) * dtype.itemsize, data.size - offset
    if actual_size < promised_size:
        raise _truncated(label, f"the header promises {counted(promised_size, 'byte')}, {actual_size} are there")
    return view_as(data[offset:], dtype, shape, fortran=fortran)


def read_npz(raw: Raw, name: str) -> tuple[Matrix, str]:
    """Return the array that `raw.member`, or else `name`, picks from a .npz file, and its label.

    Only that array is unpacked, in memory and if it fits there; names in the archive are never used as paths.
    """
    try:
        with zipfile.ZipFile(raw.path or io.BytesIO(raw.data.tobytes())) as archive:
            entries = archive.namelist()
            arrays = [entry.removesuffix(".npy") for entry in entries if entry.endswith(".npy")]
            if not arrays:
                raise _no_arrays(entries, raw.label)
            member = choose_member(arrays, raw.member, name, raw.label)
            label = raw.label if len(arrays) == 1 else f"{raw.label}:{member}"
            entry = archive.getinfo(member + ".npy")
            require_memory(entry.file_size, label)
            # zipfile never returns more than file_size bytes, so a wrong size can't evade the check above
            data = np.frombuffer(archive.read(entry), np.uint8)
    except RuntimeError:  # encrypted, or compressed in a way that zipfile doesn't support
        raise InputError(f"{raw.label} is packed in a way that can't be read here", _SAVE_AGAIN) from None
    except _ZIP_ERRORS:
        raise _truncated(raw.label, "the zip file is damaged") from None
    return read_npy(data, name, label), label


def _header(data: Bytes, label: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, whether columns are stored one by one, dtype, and where the numbers begin."""
    start = data[:12].tobytes()
    if not start.startswith(b"\x93NUMPY") and len(start) >= _MAGIC_BYTES:
        raise InputError(f"{label} is not a .npy file: it begins with the bytes {start[:6].hex(' ')}", READABLE)
    if len(start) < 12:
        raise _truncated(label, f"only {counted(len(start), 'byte')} of the header are there")
    width = 2 if start[6] == 1 else 4
    offset = _MAGIC_BYTES + width + int.from_bytes(start[_MAGIC_BYTES : _MAGIC_BYTES + width], "little")
    if offset > data.size:
        raise _truncated(label, f"the header takes {counted(offset, 'byte')}, {data.size} are there")
    file = io.BytesIO(data[_MAGIC_BYTES:offset].tobytes())
    # version 3 differs from 2 only in the encoding of field names, and arrays with fields are refused
    read_header = np.lib.format.read_array_header_1_0 if width == 2 else np.lib.format.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers written by Python 2
            shape, fortran, dtype = read_header(file)
    except _HEADER_ERRORS:
        # NumPy's own message is left out: some of them advise to trust the file
        raise InputError(f"{label} has a damaged .npy header", _SAVE_AGAIN) from None
    return tuple(map(int, shape)), fortran, dtype, offset


def _no_arrays(entries: list[str], label: str) -> InputError:
    if any(entry.endswith(".pkl") for entry in entries):
        return pickle_error(label)
    return InputError(f"{label} is a zip file with no .npy array in it", READABLE)


def _truncated(label: str, detail: str) -> InputError:
    return InputError(f"{label} is truncated or still being written: {detail}", "wait for it, or save it again")
