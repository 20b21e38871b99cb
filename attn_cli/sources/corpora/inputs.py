"""The files behind the inputs of a corpus: names, folders, globs, standard input."""

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from attn_cli.errors import InputError
from attn_cli.sources.files.paths import PathKind, expanded, kind_of_path, nearest_name
from attn_cli.text import excerpt

KINDS = ("lines", "jsonl", "csv", "tsv", "parquet", "arrow")
_SUFFIXES = {
    ".txt": "lines", ".text": "lines", ".md": "lines", ".log": "lines", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".arrow": "arrow",
}  # fmt: skip


class CorpusFile(NamedTuple):
    """One file of a corpus, "-" for standard input; `kind` is one of KINDS."""

    name: str
    kind: str


def files_of(inputs: Sequence[str], kind: str | None = None) -> tuple[CorpusFile, ...]:
    """The files of the inputs, in their order; those of a folder or a glob sorted by name."""
    if kind is not None and kind not in KINDS:
        raise InputError(f"--as {excerpt(kind, 40)}", f"one of {', '.join(KINDS)}")
    if list(inputs).count("-") > 1:
        raise InputError("standard input was given more than once", "it can be read once")
    return tuple(file for name in inputs for file in _files_of_input(name, kind))


def _files_of_input(name: str, kind: str | None) -> Iterator[CorpusFile]:
    path = expanded(name)
    found = PathKind.FILE if name == "-" else kind_of_path(path, InputError)
    if found is PathKind.FILE:
        if kind is None and _suffix(path) == ".json":
            hint = f"--as jsonl if each line is one; else: jq -c '.[]' {excerpt(name)} > X.jsonl"
            raise InputError(f"{excerpt(name)} may be one JSON value, which would be read as a whole", hint)
        yield CorpusFile(name, kind or _SUFFIXES.get(_suffix(path), "lines"))
    elif found is PathKind.FOLDER or (found is PathKind.NOTHING and glob.has_magic(name)):
        matches = [path] if found is PathKind.FOLDER else map(Path, glob.iglob(str(path), recursive=True))  # noqa: PTH207
        files = {file for match in matches for file in _files_at(match, kind)}
        if not files:
            raise InputError(f"{excerpt(name)} holds no texts", f"files of texts end in {', '.join(_SUFFIXES)}")
        for file in sorted(files):
            yield from _files_of_input(str(file), kind)
    elif found is PathKind.NOTHING:
        raise InputError(f"no file {excerpt(name)}", nearest_name(path))
    else:
        why = f"{excerpt(name)} is {found.value}, which can't be read again after an interruption"
        raise InputError(why, "save it to a file; - reads standard input")


def _files_at(path: Path, kind: str | None) -> Iterator[Path]:
    """The file at a path, or the files of texts in a folder and its folders, but for hidden ones."""
    if path.is_file():
        yield path
    for file in path.rglob("*"):
        hidden = any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
        if file.is_file() and not hidden and (kind or _suffix(file) in _SUFFIXES):
            yield file


def _suffix(path: Path) -> str:
    name = Path(path.stem if path.suffix.lower() in (".gz", ".zst") else path.name)
    return name.suffix.lower()
