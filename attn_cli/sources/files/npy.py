"""NumPy's own files: .npy, and .npz, which is a zip of them."""

import io
import lzma
import math
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.files.checks import Matrix, require_dtype, require_memory, require_shape, view_as
from attn_cli.sources.files.kinds import READABLE, pickle_error
from attn_cli.sources.files.members import choose_member
from attn_cli.sources.files.parse_errors import SAVE_AGAIN, parse_errors
from attn_cli.sources.files.raw import Bytes, Raw
from attn_cli.text import counted, excerpt

_SAVE_AGAIN = "save it again with np.save or np.savez"
# NumPy refuses headers of more than 10,000 characters, so this holds any that can be read.
_LONGEST_HEADER = 2**17

# What zipfile and its decompressors raise over bytes that aren't what they claim
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, KeyError)


class NpyHeader(NamedTuple):
    """The header of a .npy file; `offset` is the byte at which the numbers begin."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def promised_bytes(self) -> int:
        """The bytes of numbers that the header promises."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy(data: Bytes, name: str, label: str) -> Matrix:
    """The matrix in the bytes of a .npy file, as a view of them: two axes or more, real numbers."""
    header = _header(data, label)
    require_dtype(header.dtype, label)
    require_shape(header.shape, name, label)
    return _view(data, header, label)


def read_any_npy(data: Bytes, label: str) -> np.ndarray:
    """The array in the bytes of a .npy file, of any shape and of any dtype but Python objects, as a view."""
    header = _header(data, label)
    if header.dtype.hasobject:
        raise pickle_error(label)
    with parse_errors(label, _SAVE_AGAIN):  # dtypes of no bytes, of which no view can be made
        return _view(data, header, label)


def read_npz(raw: Raw, name: str) -> tuple[Matrix, str]:
    """An array of an .npz file with its label: `raw.member`, else the only one, else `name`."""
    with npz_archive(raw) as archive:
        entries = archive.namelist()
        arrays = [entry.removesuffix(".npy") for entry in entries if entry.endswith(".npy")]
        if not arrays:
            raise _no_arrays(entries, raw.label)
        member = choose_member(arrays, raw.member, name, raw.label)
        label = raw.label if len(arrays) == 1 else f"{raw.label}:{excerpt(member, 60)}"
        data = unpacked(archive, member + ".npy", label)
    return read_npy(data, name, label), label


def npz_names(raw: Raw) -> list[str]:
    """The names of the arrays of an .npz file."""
    with npz_archive(raw) as archive:
        return [entry.removesuffix(".npy") for entry in archive.namelist() if entry.endswith(".npy")]


@contextmanager
def npz_archive(raw: Raw) -> Iterator[zipfile.ZipFile]:
    """Context manager: the bytes opened as a zip file; what zipfile finds wrong in it inside becomes an InputError."""
    try:
        with zipfile.ZipFile(raw.path or io.BytesIO(raw.data.tobytes())) as archive:
            yield archive
    except RuntimeError:  # encrypted, or compressed in a way that zipfile doesn't support
        raise InputError(f"{raw.label} uses a compression that can't be read here", _SAVE_AGAIN) from None
    except _ZIP_ERRORS:
        raise _truncated(raw.label, "the zip file is damaged") from None


def unpacked(archive: zipfile.ZipFile, entry: str, label: str) -> Bytes:
    """The bytes of a .npy file (`entry`) in a zip archive, as many as its own header promises."""
    size = archive.getinfo(entry).file_size
    with archive.open(entry) as member:
        start = np.frombuffer(member.read(min(size, _LONGEST_HEADER)), np.uint8)
        header = _header(start, label)
        whole = header.offset + header.promised_bytes
        if whole > size:
            raise _promises(header, size, label)
        require_memory(whole, label)
        data = np.empty(whole, np.uint8)
        data[: start.size] = start[:whole]
        filled = start.size
        while filled < whole:
            piece = member.read(min(whole - filled, 2**20))
            if not piece:
                raise _truncated(label, f"the zip file promises {counted(size, 'byte')}, {filled} are there")
            data[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
            filled += len(piece)
    return data


def _view(data: Bytes, header: NpyHeader, label: str) -> np.ndarray:
    if data.size - header.offset < header.promised_bytes:
        raise _promises(header, data.size, label)
    return view_as(data[header.offset :], header.dtype, header.shape, fortran=header.fortran)


def _header(data: Bytes, label: str) -> NpyHeader:
    file = io.BytesIO(data[:_LONGEST_HEADER].tobytes())
    form = np.lib.format
    try:
        # version 3 differs from 2 only in the encoding of field names, and arrays with fields are refused
        read = form.read_array_header_1_0 if form.read_magic(file) == (1, 0) else form.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers written by Python 2
            shape, fortran, dtype = read(file)
    except Exception:  # of any type; NumPy's own message is left out, since some of them advise to trust the file
        raise InputError(f"{label} has a damaged .npy header", SAVE_AGAIN) from None
    # the header's numbers may have thousands of digits, so the message leaves them out
    if not all(0 <= size < 2**63 for size in shape) or math.prod(shape) * dtype.itemsize >= 2**63:
        raise InputError(f"{label}: the header gives an impossible shape", _SAVE_AGAIN)
    return NpyHeader(tuple(map(int, shape)), fortran, dtype, file.tell())


def _promises(header: NpyHeader, size: int, label: str) -> InputError:
    promised = counted(header.promised_bytes, "byte")
    return _truncated(label, f"the header promises {promised}, {size - header.offset} are there")


def _no_arrays(entries: list[str], label: str) -> InputError:
    if any(entry.endswith(".pkl") for entry in entries):
        return pickle_error(label)
    return InputError(f"{label} is a zip file with no .npy array in it", READABLE)


def _truncated(label: str, detail: str) -> InputError:
    return InputError(f"{label} is truncated or still being written: {detail}", "wait for it, or save it again")
