"""The bytes behind a spec: a path, a `path:member`, a pipe, or `-` for stdin."""

import difflib
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from attn_cli.errors import InputError, reason
from attn_cli.sources.files.content import read_content, read_stream
from attn_cli.sources.files.paths import leads_somewhere
from attn_cli.text import excerpt

Bytes = npt.NDArray[np.uint8]

# Below this a file is read, not mapped: a mapped file that is cut short later kills the process with SIGBUS.
MAP_FROM = 16 * 2**20

_CONTAINERS = (".npz", ".safetensors", ".json")


@dataclass(frozen=True)
class Raw:
    """The bytes of one file before parsing."""

    label: str
    data: Bytes
    member: str | None = None
    path: Path | None = None

    @property
    def suffix(self) -> str:
        """The suffix of the file's name in lower case, or ""."""
        return self.path.suffix.lower() if self.path else ""


def open_raw(spec: str, stdin: BinaryIO | None) -> Raw:
    """The bytes that `spec` names, a path, path:member or "-" for `stdin`; large files are mapped, not read."""
    path, member = _split(spec)
    raw = Raw("stdin", _stdin_bytes(stdin), member) if path == "-" else _open_path(Path(path), member)
    if raw.data.size:
        return raw
    if path == "-":
        raise InputError("stdin is empty (0 bytes)", "stdin can be read once: give the other matrices as files")
    raise InputError(f"{raw.label} is empty (0 bytes)", "is it still being written?")


def is_file(spec: str) -> bool:
    """True if `spec`, a path or path:member, names a plain file, which can be read more than once."""
    path = Path(_split(spec)[0])
    return leads_somewhere(str(path)) and path.is_file()


def has_member(spec: str) -> bool:
    """True if `spec` names one array of a file: path:member."""
    return _split(spec)[1] is not None


def _split(spec: str) -> tuple[str, str | None]:
    """The path and the member (or None); if a file has the whole spec as its name, there is no member."""
    if spec.startswith("-:"):
        return "-", spec[2:]
    if ":" not in spec or os.path.lexists(spec):
        return spec, None
    for at in (at for at, letter in enumerate(spec) if letter == ":"):
        if os.path.lexists(spec[:at]):
            return spec[:at], spec[at + 1 :]
    head, _, member = spec.rpartition(":")
    return (head, member) if Path(head).suffix.lower() in _CONTAINERS else (spec, None)


def _open_path(path: Path, member: str | None) -> Raw:
    label = excerpt(str(path))
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return Raw(label, _file_bytes(path), member, path)
        if stat.S_ISFIFO(mode):
            return Raw(label, np.frombuffer(read_content(path), np.uint8), member)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"no file {label}", nearest_name(path)) from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise InputError(f"{label} can't be read: {reason(error)}", "check the name and its permissions") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{label} is a folder, not a file", "name one of the files in it")
    raise InputError(f"{label} is a device, not a file", "to read a pipe, give -")


def _file_bytes(path: Path) -> Bytes:
    size = path.stat().st_size
    if size < MAP_FROM:
        return np.fromfile(path, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, mode="r"))


def nearest_name(path: Path, otherwise: str = "check the name and the folder") -> str:
    """A hint: the most similar name in the same folder, that the folder doesn't exist, or else `otherwise`."""
    if not path.parent.is_dir():
        return f"there is no folder {excerpt(str(path.parent))}"
    try:
        close = difflib.get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=1)
    except OSError:
        close = []
    return f"did you mean {excerpt(str(path.parent / close[0]))}?" if close else otherwise


def _stdin_bytes(stdin: BinaryIO | None) -> Bytes:
    stream = stdin if stdin is not None else getattr(sys.stdin, "buffer", None)
    if stream is None or stream.closed:
        raise InputError("- reads stdin, and stdin is closed", "give the name of a file")
    if stream.isatty():
        raise InputError("- reads stdin, and stdin is a terminal", "pipe a file into it, or give the name of a file")
    try:
        return np.frombuffer(read_stream(stream, "stdin"), np.uint8)
    except OSError as error:
        raise InputError(f"stdin can't be read: {reason(error)}", "give the name of a file") from None
