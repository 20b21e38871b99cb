"""Corpora: documents from files of texts, records and tables, in order, one at a time, never a file as a whole."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from heapq import nsmallest
from itertools import count, repeat
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from attn_cli.errors import InputError, reason
from attn_cli.sources.corpora.columns import ArrowRows, ParquetRows
from attn_cli.sources.corpora.document import BadRecordError, Document, RecordPlace, RejectedRecord, TextField
from attn_cli.sources.corpora.field_values import FieldText
from attn_cli.sources.corpora.inputs import KINDS, CorpusFile, content_hash, files_of
from attn_cli.sources.corpora.line_records import JsonLines, Lines, SeparatedRows, refuse_other_fields
from attn_cli.sources.corpora.packing import seekable, unpacked
from attn_cli.sources.corpora.pieces import pieces_of
from attn_cli.text import excerpt

_PIECE = 2**20  # numbers hashed at once where all are, and while a corpus is read
_FLAGS = 2**12


@dataclass(frozen=True)
class Sample:
    """A random part of a corpus: documents whose number, hashed with the seed to 64 bits, is at most `threshold`."""

    seed: int
    threshold: int

    def chosen(self, start: int) -> Iterator[bool]:
        """For each document from number `start` on whether it is in the sample; endless."""
        for first in count(start, _FLAGS):
            numbers = np.arange(first, first + _FLAGS, dtype=np.uint64)
            yield from (hashes(numbers, self.seed) <= np.uint64(self.threshold)).tolist()

    def count_below(self, stop: int) -> int:
        """How many of the documents with numbers below `stop`, from 0, are in the sample."""
        pieces = (np.arange(first, min(first + _PIECE, stop), dtype=np.uint64) for first in range(0, stop, _PIECE))
        return sum(int((hashes(piece, self.seed) <= np.uint64(self.threshold)).sum()) for piece in pieces)


def hashes(numbers: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """A random-looking 64-bit number for each number: SplitMix64 (Steele et al. 2014), whose start the seed says."""
    step = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        mixed = _finished(np.array([seed % 2**64], np.uint64) + step) + (numbers + np.uint64(1)) * step
        return _finished(mixed)


def drawn(spec: str, seed: int, total_of: Callable[[], int | None]) -> Sample:
    """The sample that `--sample` means: "5%", or exactly a number of documents (all if there are no more)."""
    share = _share(spec)
    if share is not None:
        return Sample(seed, min(int(share * 2**64), 2**64) - 1)
    if not spec.strip().isdecimal() or int(spec) == 0:
        raise InputError(f"--sample {spec!r} is neither a number of documents nor a share", "such as 10000, or 5%")
    total = total_of()
    if total is None:
        raise InputError(
            f"--sample {spec} can't be drawn from standard input, which has no known size",
            "save it to a file, or take a share: --sample 5%",
        )
    return Sample(seed, _threshold(int(spec), total, seed))


def _threshold(size: int, total: int, seed: int) -> int:
    """The `size`-th smallest hash of all numbers below `total`: as many documents as asked for are at most that."""
    smallest: list[int] = []
    for start in range(0, total, _PIECE):
        piece = hashes(np.arange(start, min(start + _PIECE, total), dtype=np.uint64), seed)
        kept = np.partition(piece, size - 1)[:size] if len(piece) > size else piece
        smallest = nsmallest(size, [*smallest, *map(int, kept)])
    return max(smallest, default=0) if total > size else 2**64 - 1


def _finished(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _share(spec: str) -> float | None:
    text = spec.strip()
    try:
        share = float(text.removesuffix("%")) / 100 if text.endswith("%") else None
    except ValueError:
        return None
    return share if share is not None and 0 < share <= 1 else None


__all__ = [
    "KINDS",
    "Corpus",
    "Document",
    "RecordPlace",
    "RejectedRecord",
    "Sample",
    "TextField",
    "open_corpus",
    "pieces_of",
]

_ALL = sys.maxsize
PROBED = 100_000  # records of standard input, which may have no end: one in twenty of them must be a text


@dataclass(frozen=True)
class Corpus:
    """The documents of several files as one sequence; it can be read many times, and sent to other processes.

    fields  names of the fields whose text is read; with none "text", else "messages", else a table's only column
    """

    files: tuple[CorpusFile, ...]
    fields: tuple[str, ...] = ()
    sample: Sample | None = None

    def documents(self, start: int = 0, stop: int | None = None) -> Iterator[Document | RejectedRecord]:
        """The documents numbered `start` up to `stop`, in order, and rejected records among them."""
        number, last, tried, texts = 0, _ALL if stop is None else stop, 0, 0
        chosen = repeat(True) if self.sample is None else self.sample.chosen(start)
        for file in self.files:
            if number >= last:
                return
            with _opened(file, self.fields) as reader:
                passed = reader.skip(max(0, start - number))
                number += passed
                for record, raw in enumerate(reader, passed + 1):
                    if number >= last:
                        return
                    if next(chosen):
                        found = _document(number, RecordPlace(file.name, record), reader, raw)
                        yield found
                        tried, texts = tried + 1, texts + isinstance(found, Document)
                        if file.is_stdin and tried == PROBED and texts < PROBED // 20:
                            raise InputError(
                                f"only {texts:,} of the first {PROBED:,} records of standard input are texts",
                                "check what is piped in",
                            )
                    number += 1

    def count(self) -> int | None:
        """The number of records, in the sample or not; None where standard input is among the files."""
        return None if any(file.is_stdin for file in self.files) else sum(map(self._count, self.files))

    def count_below(self, stop: int) -> int:
        """How many of the records numbered below `stop`, from 0, are in the sample; `stop` itself without a sample."""
        return stop if self.sample is None else self.sample.count_below(stop)

    def fingerprint(self) -> dict[str, Any]:
        """What tells later whether a corpus is the same: its files with a hash each, fields, sample."""
        files = [
            {"name": file.name, "kind": file.kind, "hash": None if file.is_stdin else content_hash(file.path)}
            for file in self.files
        ]
        sample = None if self.sample is None else {"seed": self.sample.seed, "threshold": str(self.sample.threshold)}
        return {"files": files, "fields": list(self.fields), "sample": sample}

    def _count(self, file: CorpusFile) -> int:
        with _opened(file, self.fields) as reader:
            return reader.skip(_ALL)


def open_corpus(
    inputs: Sequence[str],
    *,
    fields: Sequence[str] = (),
    kind: str | None = None,
    sample: str | None = None,
    seed: int = 0,
) -> Corpus:
    """The corpus (documents as one sequence) of files, folders, globs, saved datasets and "-" for standard input."""
    corpus = Corpus(files_of(inputs, kind), tuple(fields))
    for file in corpus.files:
        if file.kind == "jsonl" and not file.is_stdin:
            with _stream(file) as stream:
                refuse_other_fields(stream, excerpt(file.name), corpus.fields)
        elif not file.is_stdin:
            with _opened(file, corpus.fields) as reader:
                reader.skip(1)  # what holds no text at all is said before a model is loaded
    return corpus if sample is None else replace(corpus, sample=drawn(sample, seed, corpus.count))


class RecordReader(Protocol):
    """The records (lines, rows ...) of one open file, in order."""

    def skip(self, most: int) -> int:
        """Pass over the next records, at most `most`, without parsing them; returns how many there were."""

    def __iter__(self) -> Iterator[Any]:
        """The records that remain, unparsed; one that could not be separated is a BadRecordError."""

    def parse(self, record: Any) -> FieldText:
        """The text of a record as iterating gave it; BadRecordError for one that holds none."""


def _document(number: int, origin: RecordPlace, reader: RecordReader, raw: Any) -> Document | RejectedRecord:
    try:
        if isinstance(raw, BadRecordError):
            raise raw
        text, fields = reader.parse(raw)
    except BadRecordError as error:
        return RejectedRecord(number, origin, error.reason, error.detail)
    return Document(number, origin, text, fields) if text else RejectedRecord(number, origin, "empty", "no text")


@contextmanager
def _opened(file: CorpusFile, fields: Sequence[str]) -> Iterator[RecordReader]:
    with _stream(file) as stream:
        yield _READERS[file.kind](stream, excerpt(file.name), fields)


@contextmanager
def _stream(file: CorpusFile) -> Iterator[BinaryIO]:
    if file.is_stdin:
        yield _standard_input(file)
        return
    try:
        with (seekable if file.kind in ("parquet", "arrow") else unpacked)(file.path, file.packing) as stream:
            yield stream
    except OSError as error:
        raise InputError(
            f"can't read {excerpt(file.name)}: {reason(error)}", "check the name and its permissions"
        ) from None


def _standard_input(file: CorpusFile) -> BinaryIO:
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("standard input is closed", "give the names of files")
    if file.kind in ("parquet", "arrow"):
        raise InputError(f"{file.kind} can't be read from standard input", "save it to a file, and name that")
    return sys.stdin.buffer


_READERS: dict[str, Callable[[BinaryIO, str, Sequence[str]], RecordReader]] = {
    "lines": Lines,
    "jsonl": JsonLines,
    "csv": partial(SeparatedRows, separator=","),
    "tsv": partial(SeparatedRows, separator="\t"),
    "parquet": ParquetRows,
    "arrow": ArrowRows,
}
