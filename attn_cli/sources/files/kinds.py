"""The kind of a file, by its suffix and its first bytes."""

import codecs
from enum import Enum
from pathlib import Path

from attn_cli.errors import InputError
from attn_cli.sources.files.raw import Raw


class FileKind(Enum):
    """The kinds of matrix files that can be read; the value is what a message calls them."""

    NPY = ".npy"
    NPZ = ".npz"
    SAFETENSORS = ".safetensors"
    JSON = "JSON"
    TEXT = "text"


READABLE = "matrices come as .npy, .npz, .safetensors, .csv, .tsv, .txt or .json"

_BY_SUFFIX = {
    ".npy": FileKind.NPY,
    ".npz": FileKind.NPZ,
    ".safetensors": FileKind.SAFETENSORS,
    ".json": FileKind.JSON,
    ".csv": FileKind.TEXT,
    ".tsv": FileKind.TEXT,
}

SAMPLE = 4096  # bytes that tell what a file holds
_NPY_MAGIC = b"\x93NUMPY"
_FOREIGN = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\x1f\x8b", "a gzip file"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ\0", "an xz file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x7fELF", "an ELF program"),
    (b"%PDF", "a PDF document"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"GGUF", "a GGUF model"),
    (b"MATLAB 5.0", "a MATLAB file"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself"),
    (b"<!DOCTYPE html", "a web page"),
    (b"<html", "a web page"),
)
_PACKED = ("a gzip file", "a bzip2 file", "an xz file", "a zstd file")


def kind_of(raw: Raw) -> FileKind:
    """The kind to read `raw` as: by its suffix, or by its first bytes if the suffix is unknown."""
    start = raw.data[:SAMPLE].tobytes()
    content = sniff(start)
    if content is None:
        _refuse_foreign(start, raw.label)
    kind = _BY_SUFFIX.get(raw.suffix, content)
    if kind is None:
        raise InputError(f"{raw.label} has an unknown file type", READABLE)
    if content in (None, kind) or {content, kind} == {FileKind.JSON, FileKind.TEXT}:
        return kind
    assert content is not None
    raise InputError(
        f"{raw.label} is not a {raw.suffix} file: it holds {content.value}",
        f"rename it by what it holds, or save it again as {raw.suffix}",
    )


def has_known_suffix(path: Path) -> bool:
    """True for the name of a file of matrices, whether it exists or not; `a.npz:q` is one, too."""
    return path.suffix.lower().partition(":")[0] in (*_BY_SUFFIX, ".txt")


def pickle_error(label: str) -> InputError:
    """The InputError for pickles, which can run code; its hint names safe formats, no way to load the pickle."""
    return InputError(
        f"{label} contains Python objects (pickle); re-save with a numeric dtype",
        'for example np.save("q.npy", q.astype(np.float32))',
    )


def sniff(start: bytes) -> FileKind | None:
    """The kind of a file that begins with these bytes; None for a kind that can't be read here."""
    if start.startswith(_NPY_MAGIC) or _NPY_MAGIC.startswith(start):
        return FileKind.NPY
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return FileKind.NPZ
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") < 10**8:
        return FileKind.SAFETENSORS
    utf16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if any(start.startswith(magic) for magic, _ in _FOREIGN) or not (utf16 or is_text(start)):
        return None
    return FileKind.JSON if start.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"[", b"{") else FileKind.TEXT


def is_text(start: bytes) -> bool:
    """True for UTF-8 without control characters; `start`, the beginning of a file, may end within a letter."""
    try:
        letters = codecs.getincrementaldecoder("utf-8")().decode(start, final=False)
    except UnicodeDecodeError:
        return False
    return all(letter >= " " or letter in "\t\n\v\f\r" for letter in letters)


def refuse_pickle(start: bytes, label: str) -> None:
    """Raise InputError if a file, called `label` in the error, begins as a pickle does."""
    if start[:1] == b"\x80" and start[1:2] in (b"\2", b"\3", b"\4", b"\5"):
        raise pickle_error(label)


def _refuse_foreign(start: bytes, label: str) -> None:
    refuse_pickle(start, label)
    for magic, noun in _FOREIGN:
        if start.startswith(magic):
            raise InputError(f"{label} is {noun}", "unpack it first" if noun in _PACKED else READABLE)
