"""Dumps of another engine's pass: .npz, .safetensors, .npy, a folder of these, or a run as an engine saves it."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attn_cli.dump import Dump, DumpArray
from attn_cli.errors import InputError
from attn_cli.sources.files.checks import require_memory
from attn_cli.sources.files.kinds import FileKind, kind_of
from attn_cli.sources.files.npy import NpyHeader, npy_header, npz_archive, npz_header, read_any_npy, unpacked
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import expanded
from attn_cli.sources.files.raw import Raw, open_raw
from attn_cli.sources.files.tensors import any_tensor, safetensors_header, tensor_precision
from attn_cli.text import excerpt, listed

TOKENS = ("tokens", "input_ids", "prompt_token_ids", "token_ids")
POSITIONS = ("positions", "position_ids")
_SUFFIXES = (".npy", ".npz", ".safetensors")
_MOST_ARRAYS = 100_000
_KEPT_BYTES = 64 * 2**20  # of a file's arrays: a search for mistakes reads each hundreds of times
_HINT = "save what the engine saw as .npz or .safetensors"


class _Entry(NamedTuple):
    """One array of a file, by its header alone."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], np.ndarray]


def open_dump(spec: str) -> Dump:
    """What another engine saved of a pass, as arrays by name, from a file or folder; numbers are read later."""
    path = expanded(spec)
    entries: list[_Entry] = []
    for file in _files(path, spec):
        entries += _entries(open_raw(str(file), None))
        if len(entries) > _MOST_ARRAYS:
            raise InputError(f"{excerpt(spec)} holds more than {_MOST_ARRAYS:,} arrays", "give fewer layers")
    names = [entry.name for entry in entries]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{excerpt(spec)} holds two arrays called {excerpt(twice, 60)}", "give each a name of its own")
    special = {entry.name: entry for entry in entries if entry.dtype in ("integer", "boolean")}
    arrays = tuple(
        DumpArray(entry.name, entry.shape, entry.dtype, entry.read)
        for entry in entries
        if entry.name not in special and entry.dtype != "other" and 0 not in entry.shape
    )
    if not arrays:
        kinds = f": it holds {listed(map(excerpt, names))}" if names else ""
        raise InputError(f"{excerpt(spec)} holds no array of numbers with a point{kinds}", _HINT)
    return Dump(excerpt(spec), arrays, _integers(special, TOKENS), _integers(special, POSITIONS))


def _files(path: Path, spec: str) -> list[Path]:
    if not path.is_dir():
        return [path]
    try:
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in _SUFFIXES and file.is_file())
    except OSError as error:
        raise InputError(f"{excerpt(spec)} can't be read: {error.strerror}", "check its permissions") from None
    if not files:
        raise InputError(f"{excerpt(spec)} is a folder without .npy, .npz or .safetensors files", _HINT)
    return files


def _entries(raw: Raw) -> Iterator[_Entry]:
    kind = kind_of(raw)
    if kind is FileKind.NPY:
        stem = raw.path.stem if raw.path else raw.label
        yield _of_header(stem, npy_header(raw.data, raw.label), partial(_read_npy, raw.path or raw))
    elif kind is FileKind.NPZ:
        members = _Members(raw)
        with npz_archive(raw) as archive:
            for entry in archive.namelist():
                if entry.endswith(".npy"):
                    name = entry.removesuffix(".npy")
                    label = f"{raw.label}:{excerpt(name, 60)}"
                    yield _of_header(name, npz_header(archive, entry, label), partial(members.read, entry, label))
    elif kind is FileKind.SAFETENSORS:
        with parse_errors(raw.label):
            header = safetensors_header(raw)
            for name, of in header.tensors.items():
                shape = tuple(map(int, of["shape"]))
                yield _Entry(name, shape, tensor_precision(of["dtype"]), partial(any_tensor, raw, header, name))
    else:
        raise InputError(f"{raw.label} is {kind.value}, no dump of arrays", _HINT)


def _of_header(name: str, header: NpyHeader, read: Callable[[], np.ndarray]) -> _Entry:
    kinds = {"f": str(header.dtype), "i": "integer", "u": "integer", "b": "boolean"}
    kind = kinds.get(header.dtype.kind, "other")
    if header.dtype.kind == "f" and header.dtype.itemsize > 8:
        kind = "float64"
    return _Entry(name, header.shape, kind.lstrip("<>="), read)


def _read_npy(file: Path | Raw) -> np.ndarray:
    raw = file if isinstance(file, Raw) else open_raw(str(file), None)
    return read_any_npy(raw.data, raw.label)


class _Members:
    """The arrays of an .npz file: the first that are read are kept, as many as 64 MiB hold; others are read anew."""

    def __init__(self, raw: Raw) -> None:
        self.raw, self.free = raw, _KEPT_BYTES
        self.kept: dict[str, np.ndarray] = {}

    def read(self, entry: str, label: str) -> np.ndarray:
        """The array of an entry, which nobody may write into."""
        if entry in self.kept:
            return self.kept[entry]
        with npz_archive(self.raw) as archive:
            array = read_any_npy(unpacked(archive, entry, label), label)
        array.flags.writeable = False
        if array.nbytes <= self.free:
            self.free -= array.nbytes
            self.kept[entry] = array
        return array


def _integers(special: dict[str, _Entry], names: tuple[str, ...]) -> tuple[int, ...] | None:
    """The whole numbers of the first of these names; InputError where they aren't those of one text."""
    for name in names:
        entry = special.get(name)
        if entry is None or entry.dtype != "integer":
            continue
        require_memory(8 * math.prod(entry.shape), name)
        if sum(size != 1 for size in entry.shape) > 1:
            sizes = " x ".join(map(str, entry.shape))
            raise InputError(f"{name} is {sizes}, and one text was expected", "dump one text at a time")
        return tuple(int(number) for number in entry.read().reshape(-1))
    return None
