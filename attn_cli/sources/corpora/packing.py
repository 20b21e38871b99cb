"""Streams of files, unpacked while they are read where they are packed by gzip or Zstandard."""

import gzip
import io
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from attn_cli.errors import InputError, LimitError, LoadError
from attn_cli.text import decimal_bytes, excerpt

PACKINGS = (".gz", ".zst")
READ_ERRORS = (OSError, EOFError, zlib.error)  # what reading such a stream raises where the file is damaged
MOST_UNPACKED = 64 * 10**9  # bytes of a packed file that can't be read in one direction
_PIECE = 2**20
_BUFFER = 2**16  # as much of a damaged file is lost before the place of the damage


@contextmanager
def unpacked(path: Path, packing: str) -> Iterator[BinaryIO]:
    """The content of a file as a stream to be read forwards; `packing` is "", ".gz" or ".zst"."""
    with path.open("rb") as file:
        yield _unpacking(file, packing) if packing else file


@contextmanager
def seekable(path: Path, packing: str) -> Iterator[BinaryIO]:
    """The content of a file as one that can be read from any place; a packed one is unpacked to a temporary file."""
    with unpacked(path, packing) as stream:
        if not packing:
            yield stream
            return
        with tempfile.TemporaryFile() as copy:
            for piece in _pieces(stream, path):
                if copy.tell() > MOST_UNPACKED:
                    raise LimitError(
                        f"{excerpt(str(path))} holds more than {decimal_bytes(MOST_UNPACKED)}",
                        "such a table packs itself: save it without a packing around it",
                    )
                copy.write(piece)
            copy.seek(0)
            yield cast(BinaryIO, copy)


def _pieces(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    try:
        yield from iter(lambda: stream.read(_PIECE), b"")
    except READ_ERRORS as error:
        raise InputError(
            f"{excerpt(str(path))} can't be unpacked: {excerpt(str(error))}",
            "it may be damaged or cut short: download it again",
        ) from None


def _unpacking(file: BinaryIO, packing: str) -> BinaryIO:
    if packing == ".gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    try:
        import pyarrow  # an optional package
    except ImportError:
        raise LoadError(".zst files need the package pyarrow", "pip install 'attn-cli[scan]'") from None
    # not the package zstandard, whose stream ends without an error where the file was cut short
    return cast(BinaryIO, io.BufferedReader(pyarrow.CompressedInputStream(pyarrow.PythonFile(file), "zstd"), _BUFFER))
