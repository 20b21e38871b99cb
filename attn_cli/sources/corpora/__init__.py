"""Corpora: documents from files of texts, records and tables, in order, one at a time, never a file as a whole."""

import glob
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_cli.errors import InputError
from attn_cli.prompt import EncodedText
from attn_cli.sources.corpora.records import NO_FIELD, BadRecordError, CorpusFile, opened, text_of
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import PathKind, expanded, kind_of_path, require_file
from attn_cli.text import excerpt

KINDS = ("lines", "jsonl", "csv", "tsv", "parquet", "arrow")
_SUFFIXES = {
    ".txt": "lines", ".text": "lines", ".md": "lines", ".log": "lines", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".arrow": "arrow",
}  # fmt: skip
_FIRST = 100  # records of a file among which one must have the field


class Document(NamedTuple):
    """A text of a corpus, or the `reason` for which its record has none, in words that are the same for all of a kind.

    number is counted from 0 among all records of all inputs, record from 1 in its file, piece from 0 in a cut document.
    """

    number: int
    file: str
    record: int
    text: str
    piece: int = 0
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Corpus:
    """The documents of several files as one sequence, which can be read many times; of a sample those in `chosen`.

    field  the name of the field or column whose text is read; None for "text", or a table's only column
    """

    files: tuple[CorpusFile, ...]
    field: str | None = None
    chosen: np.ndarray | None = None

    def documents(self) -> Iterator[Document]:
        """The documents, in order, and records without a text among them."""
        chosen = None if self.chosen is None else {*self.chosen.tolist()}
        for number, (file, at, raw) in enumerate(self._records()):
            if chosen is None or number in chosen:
                try:
                    text = text_of(raw, file.kind, self.field)
                    yield Document(number, file.name, at, text, 0, "" if text.strip() else "empty")
                except BadRecordError as error:
                    yield Document(number, file.name, at, "", 0, error.reason, error.detail)

    def _records(self) -> Iterator[tuple[CorpusFile, int, Any]]:
        for file in self.files:
            with opened(file, self.field) as records:
                yield from ((file, at, raw) for at, raw in enumerate(records, 1))

    def count(self) -> int | None:
        """The number of documents; None where standard input is among the files."""
        if self.chosen is not None:
            return len(self.chosen)
        return None if any(file.name == "-" for file in self.files) else sum(1 for _ in self._records())

    def fingerprint(self) -> dict[str, Any]:
        """What tells later whether a corpus is the same: its files with a hash each, the field, a sample's numbers."""
        drawn = None if self.chosen is None else [len(self.chosen), hashlib.md5(self.chosen.tobytes()).hexdigest()]
        files: list[dict[str, Any]] = [{**file._asdict(), "hash": None} for file in self.files]
        for file in files:
            if file["name"] != "-":
                with parse_errors(excerpt(file["name"])), expanded(file["name"]).open("rb") as stream:
                    file["hash"] = hashlib.file_digest(stream, "blake2b").hexdigest()[:32]
        return {"files": files, "field": self.field, "sample": drawn}


def open_corpus(
    inputs: Sequence[str],
    *,
    field: str | None = None,
    kind: str | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> Corpus:
    """The corpus of files, folders, globs and "-" for standard input; `sample` documents drawn by `seed`, or all."""
    corpus = Corpus(files_of(inputs, kind), field)
    for file in corpus.files:
        _check(file, field)
    if sample is None:
        return corpus
    total = corpus.count()
    if total is None:
        raise InputError("no sample of standard input can be drawn: it has no known size", "save it to a file")
    return replace(corpus, chosen=np.random.default_rng(seed).choice(total, min(sample, total), replace=False))


def _check(file: CorpusFile, field: str | None) -> None:
    """Raise InputError for a file whose first records all lack the field, before a model is loaded."""
    lacking = ""
    for document in () if file.name == "-" else islice(Corpus((file,), field).documents(), _FIRST):
        if document.reason in ("", "empty"):
            return
        lacking = lacking or document.detail * (document.reason == NO_FIELD)
    if lacking:
        raise InputError(f"{excerpt(file.name)} has {excerpt(lacking, 120)}", "--column NAME: the text's")


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
    if found is PathKind.FOLDER or (found is PathKind.NOTHING and glob.has_magic(name)):
        matches = [path] if found is PathKind.FOLDER else map(Path, glob.iglob(str(path), recursive=True))  # noqa: PTH207
        files = {file for match in matches for file in _files_at(match, kind)}
        if not files:
            raise InputError(f"{excerpt(name)} holds no texts", f"files of texts end in {', '.join(_SUFFIXES)}")
        for file in sorted(files):
            yield from _files_of_input(str(file), kind)
        return
    if name != "-":
        require_file(path, InputError)
    if kind is None and _suffix(path) == ".json":
        hint = f"--as jsonl if each line is one; else: jq -c '.[]' {excerpt(name)} > X.jsonl"
        raise InputError(f"{excerpt(name)} may be one JSON value, which would be read as a whole", hint)
    yield CorpusFile(name, kind or _SUFFIXES.get(_suffix(path), "lines"))


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


def pieces_of(
    document: Document, encode: Callable[[Sequence[str]], Sequence[EncodedText]], size: int
) -> Iterator[Document]:
    """The pieces of up to `size` tokens that a long document is cut into, in order, if possible at ends of words."""
    text, (tokens,) = document.text, encode([document.text])
    placed = tokens.starts >= 0
    starts, ends, room = tokens.starts[placed].tolist(), tokens.ends[placed].tolist(), size - int((~placed).sum())
    if len(tokens.ids) <= size or not starts:
        yield document
        return
    if room < 1:
        raise InputError(f"--max-tokens {size} has no room for text: the tokenizer adds {size - room} tokens",
                         f"--max-tokens {size - room + 2} or more")  # fmt: skip
    first = number = begin = 0
    while first < len(starts):
        most = min(first + room, len(starts))
        tried = range(most, first + (room + 1) // 2, -1) if most < len(starts) else ()
        stop = next((at for at in tried if starts[at] > ends[at - 1] or text[starts[at]].isspace()), most)
        end = len(text) if stop == len(starts) else ends[stop - 1]
        yield document._replace(text=text[begin:end], piece=number)
        first, number, begin = stop, number + 1, end
