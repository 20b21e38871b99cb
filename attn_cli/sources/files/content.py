"""The whole content of a file, or of what has no size: a pipe, a device, standard input."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from attn_cli.errors import LimitError
from attn_cli.sources.memory import free_memory
from attn_cli.text import decimal_bytes, excerpt

MOST_ENDLESS = 10**9
_PIECE = 2**20


def read_content(path: Path) -> bytes:
    """The bytes of a file; of a pipe or a device until it ends."""
    with path.open("rb") as file:
        status, free = os.fstat(file.fileno()), free_memory()
        if not stat.S_ISREG(status.st_mode):
            return read_stream(file, excerpt(str(path)))
        if free is not None and status.st_size > free:
            sizes = f"{decimal_bytes(status.st_size)}, and {decimal_bytes(free)}"
            raise LimitError(f"{excerpt(str(path))} has {sizes} of memory are free", "give a part of it")
        return file.read()


def read_stream(stream: BinaryIO, label: str) -> bytes:
    """The bytes of a stream until it ends; LimitError, in which `label` names it, for more than 1 GB."""
    pieces, size = [], 0
    while piece := stream.read(_PIECE):
        size += len(piece)
        if size > MOST_ENDLESS:
            raise LimitError(
                f"{label}: more than {decimal_bytes(MOST_ENDLESS)} without an end", "save it to a file, and name that"
            )
        pieces.append(piece)
    return b"".join(pieces)
