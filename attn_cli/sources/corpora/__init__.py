"""Corpora: documents from files of texts, records and tables, in order, one at a time, never a file as a whole."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from attn_cli.errors import InputError
from attn_cli.prompt import EncodedText
from attn_cli.sources.corpora.inputs import KINDS, CorpusFile, files_of
from attn_cli.sources.corpora.records import BadRecordError, opened, text_of
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import expanded
from attn_cli.text import excerpt, listed

__all__ = ["KINDS", "Corpus", "Document", "open_corpus", "pieces_of"]
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
        files = [{"name": file.name, "kind": file.kind, "hash": _hash(file)} for file in self.files]
        return {"files": files, "field": self.field, "sample": drawn}


def _hash(file: CorpusFile) -> str | None:
    if file.name == "-":
        return None
    with parse_errors(excerpt(file.name)), expanded(file.name).open("rb") as stream:
        return hashlib.file_digest(stream, "blake2b").hexdigest()[:32]


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
    other: list[str] = []
    if file.name == "-":
        return
    with opened(file, field) as records:
        for raw in islice(records, _FIRST):
            try:
                text_of(raw, file.kind, field)
                return
            except BadRecordError as error:
                other = other or error.fields
    if other:
        raise InputError(f"{excerpt(file.name)} has no field {field or 'text'!r}: it has {listed(map(excerpt, other))}",
                         f"--column {excerpt(other[0], 40)}, if that is the text")  # fmt: skip


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
