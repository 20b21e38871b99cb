"""The files behind the inputs of a corpus: names, folders, globs, a dataset saved on disk, standard input."""

import glob
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from attn_cli.errors import InputError, reason
from attn_cli.sources.corpora.packing import PACKINGS
from attn_cli.sources.files.json_document import read_json_document
from attn_cli.sources.files.paths import PathKind, expanded, kind_of_path
from attn_cli.sources.files.raw import nearest_name
from attn_cli.text import excerpt, listed

_PIECE = 2**18
_PIECES = 64  # of a large file, at equal distances; a file of up to 16 MiB is read whole


def content_hash(path: Path) -> str:
    """A hash of a file's size and content: of all of it up to 16 MiB, of 64 pieces of 256 KiB of a larger one."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        size = path.stat().st_size
        digest.update(size.to_bytes(8, "little"))
        with path.open("rb") as file:
            if size <= _PIECES * _PIECE:
                digest.update(file.read())
            else:
                for piece in range(_PIECES):
                    file.seek(piece * (size - _PIECE) // (_PIECES - 1))
                    digest.update(file.read(_PIECE))
    except OSError as error:
        raise InputError(
            f"can't read {excerpt(str(path))}: {reason(error)}", "check the name and its permissions"
        ) from None
    return digest.hexdigest()


KINDS = ("lines", "jsonl", "csv", "tsv", "parquet", "arrow")
_SUFFIXES = {
    ".txt": "lines", ".text": "lines", ".md": "lines", ".log": "lines", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".arrow": "arrow",
}  # fmt: skip
_DATASET_STATE = "state.json"
_DATASET_SPLITS = "dataset_dict.json"
MOST_FILES = 1_000_000  # of a glob


@dataclass(frozen=True)
class CorpusFile:
    """One file of a corpus, "-" for standard input; `kind` is lines, jsonl, csv, tsv, parquet or arrow."""

    name: str
    kind: str

    @property
    def packing(self) -> str:
        """How the file is compressed, by its name: "", ".gz" or ".zst"."""
        return _packing(self.name)

    @property
    def path(self) -> Path:
        """The path of the file."""
        return expanded(self.name)

    @property
    def is_stdin(self) -> bool:
        """True for standard input, which is read once."""
        return self.name == "-"


def files_of(inputs: Sequence[str], kind: str | None = None) -> tuple[CorpusFile, ...]:
    """The files of the inputs, in their order; those of a folder or a glob sorted by name."""
    if kind is not None and kind not in KINDS:
        raise InputError(f"--as {excerpt(kind, 40)}", f"one of {', '.join(KINDS)}")
    if list(inputs).count("-") > 1:
        raise InputError("standard input was given more than once", "it can be read once")
    return tuple(file for name in inputs for file in _files_of_input(name, kind))


def _files_of_input(name: str, kind: str | None) -> Iterator[CorpusFile]:
    if name == "-":
        yield CorpusFile("-", kind or "lines")
        return
    path = expanded(name)
    match kind_of_path(path, InputError):
        case PathKind.FILE:
            yield _file(name, kind)
        case PathKind.FOLDER:
            yield from _files_of_folder(name, kind)
        case PathKind.NOTHING if glob.has_magic(name):
            for match in _matches(name, str(path)):
                yield from _files_of_input(match, kind)
        case PathKind.NOTHING:
            raise InputError(f"no file {excerpt(name)}", nearest_name(path))
        case other:
            raise InputError(
                f"{excerpt(name)} is {other.value}, which can't be read again after an interruption",
                "save it to a file; - reads standard input",
            )


def _matches(name: str, pattern: str) -> list[str]:
    found = glob.iglob(pattern, recursive=True)  # noqa: PTH207 (the pattern may begin at any folder)
    matches = sorted(islice(found, MOST_FILES + 1))
    if not matches:
        raise InputError(f"no file matches {excerpt(name)}", "check the pattern and the folder")
    if len(matches) > MOST_FILES:
        raise InputError(f"{excerpt(name)} matches more than {MOST_FILES:,} files", "name a folder nearer to the texts")
    files = [match for match in matches if not Path(match).is_dir()] if "**" in name else []
    return files or matches


def _file(name: str, kind: str | None) -> CorpusFile:
    suffix = Path(_unpacked_name(name)).suffix.lower()
    if kind is None and suffix == ".json":
        raise InputError(
            f"{excerpt(name)} may be one JSON value, which would be read as a whole",
            f"--as jsonl if each line is one; else: jq -c '.[]' {excerpt(name)} > X.jsonl",
        )
    return CorpusFile(name, kind or _SUFFIXES.get(suffix, "lines"))


def _unpacked_name(name: str) -> str:
    return name[: -len(_packing(name))] if _packing(name) else name


def _packing(name: str) -> str:
    suffix = Path(name).suffix.lower()
    return suffix if suffix in PACKINGS else ""


def _files_of_folder(name: str, kind: str | None) -> Iterator[CorpusFile]:
    folder = expanded(name)
    if (folder / _DATASET_SPLITS).is_file():
        splits = _names_in(folder / _DATASET_SPLITS, "splits", lambda split: split) or ["SPLIT"]
        raise InputError(
            f"{excerpt(name)} is a dataset with the splits {listed(map(excerpt, splits))}",
            f"name those that are meant: {excerpt(str(Path(name) / splits[0]))}",
        )
    if (folder / _DATASET_STATE).is_file():
        for file in _names_in(folder / _DATASET_STATE, "_data_files", lambda entry: entry["filename"]):
            yield from _files_of_input(str(Path(name) / file), "arrow")
        return
    known = [file for file in _walk(folder) if kind or Path(_unpacked_name(file)).suffix.lower() in _SUFFIXES]
    found = [file for file in known if kind_of_path(Path(file), InputError) not in (PathKind.PIPE, PathKind.DEVICE)]
    if not found:
        raise InputError(f"{excerpt(name)} holds no texts", f"files of texts end in {', '.join(_SUFFIXES)}")
    for file in found:
        yield _file(str(Path(name) / Path(file).relative_to(folder)), kind)


def _walk(folder: Path) -> list[str]:
    found = []
    for parent, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [str(Path(parent) / name) for name in files if not name.startswith((".", "_"))]
    return sorted(found)


def _refuse(error: OSError) -> None:
    raise InputError(f"{excerpt(str(error.filename))} can't be read: {reason(error)}", "check its permissions")


def _names_in(file: Path, key: str, name_of: Callable[[Any], object]) -> list[str]:
    """The names of a list in a dataset's own file, each of something in the dataset's folder."""
    label, hint = excerpt(str(file)), "was the dataset saved whole?"
    value = read_json_document(file, label, InputError, hint)
    try:
        names = [name_of(entry) for entry in value.get(key) or ()]
    except (AttributeError, KeyError, TypeError):
        raise InputError(f"{label} names no {key.strip('_')}", hint) from None
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or name in ("", ".."):
            raise InputError(f"{label} names {excerpt(str(name), 60)}, which is nothing in its folder", hint)
    return [str(name) for name in names]
