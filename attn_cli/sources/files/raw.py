"""The bytes behind a spec, a path, a `path:member`, a pipe, or `-` for stdin; and the kind of file that they are."""

import codecs
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from attn_cli.errors import InputError, reason
from attn_cli.sources.files.parse_errors import refuse_pickle
from attn_cli.sources.files.paths import (
    PathKind,
    kind_of_path,
    leads_somewhere,
    read_content,
    read_stream,
    require_file,
)
from attn_cli.text import excerpt

Bytes = npt.NDArray[np.uint8]

# Below this a file is read, not mapped: a mapped file that is cut short later kills the process with SIGBUS.
MAP_FROM = 16 * 2**20
READABLE = "matrices come as .npy, .npz, .safetensors, .csv, .tsv, .txt or .json"
SAMPLE = 4096  # bytes that tell what a file holds

_CONTAINERS = (".npz", ".safetensors", ".json")
_BY_SUFFIX = {suffix: suffix for suffix in (".npy", ".npz", ".safetensors")} | {
    ".json": "JSON",
    ".csv": "text",
    ".tsv": "text",
}
_NPY_MAGIC = b"\x93NUMPY"


@dataclass(frozen=True)
class Raw:
    """The bytes of one file before parsing."""

    label: str
    data: Bytes
    member: str | None = None
    path: Path | None = None


def open_raw(spec: str, stdin: BinaryIO | None = None) -> Raw:
    """The bytes that `spec` names, a path, path:member or "-" for `stdin`; large files are mapped, not read."""
    name, member = _split(spec)
    raw = Raw("stdin", _stdin_bytes(stdin), member) if name == "-" else _open_path(Path(name), member)
    if raw.data.size:
        return raw
    if name == "-":
        raise InputError("stdin is empty (0 bytes)", "stdin can be read once: give the other matrices as files")
    raise InputError(f"{raw.label} is empty (0 bytes)", "is it still being written?")


def is_file(spec: str) -> bool:
    """True if `spec`, a path or path:member, names a plain file, which can be read more than once."""
    path = Path(_split(spec)[0])
    return leads_somewhere(str(path)) and path.is_file()


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
        if kind_of_path(path, InputError) is PathKind.PIPE:
            return Raw(label, np.frombuffer(read_content(path), np.uint8), member)
        require_file(path, InputError)
        is_small = path.stat().st_size < MAP_FROM
        data = np.fromfile(path, np.uint8) if is_small else np.asarray(np.memmap(path, np.uint8, mode="r"))
    except OSError as error:
        raise InputError(f"{label} can't be read: {reason(error)}", "check the name and its permissions") from None
    return Raw(label, data, member, path)


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


def kind_of(raw: Raw) -> str:
    """The kind to read `raw` as, such as ".npy", "JSON" or "text": by its suffix, or else by its first bytes."""
    start, suffix = raw.data[:SAMPLE].tobytes(), raw.path.suffix.lower() if raw.path else ""
    content = sniff(start)
    if content is None:
        refuse_pickle(start, raw.label)
    kind = _BY_SUFFIX.get(suffix, content)
    if kind is None:
        raise InputError(f"{raw.label} has an unknown file type", READABLE)
    return kind


def has_known_suffix(path: Path) -> bool:
    """True for the name of a file of matrices, whether it exists or not; `a.npz:q` is one, too."""
    return path.suffix.lower().partition(":")[0] in (*_BY_SUFFIX, ".txt")


def sniff(start: bytes) -> str | None:
    """The kind of a file that begins with these bytes; None for a kind that can't be read here."""
    if start.startswith(_NPY_MAGIC) or _NPY_MAGIC.startswith(start):
        return ".npy"
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return ".npz"
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") < 10**8:
        return ".safetensors"
    utf16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if not (utf16 or is_text(start)):
        return None
    return "JSON" if start.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"[", b"{") else "text"


def is_text(start: bytes) -> bool:
    """True for UTF-8 without control characters; `start`, the beginning of a file, may end within a letter."""
    try:
        letters = codecs.getincrementaldecoder("utf-8")().decode(start, final=False)
    except UnicodeDecodeError:
        return False
    return all(letter >= " " or letter in "\t\n\v\f\r" for letter in letters)
