"""Corpora: documents from files of texts, records and tables, in order, one at a time, never a file as a whole."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any, BinaryIO

from attn_cli.errors import InputError, reason
from attn_cli.sources.corpora.columns import ArrowRows, ParquetRows
from attn_cli.sources.corpora.document import BadRecordError, Document, RecordPlace, RejectedRecord, TextField
from attn_cli.sources.corpora.fingerprint import content_hash
from attn_cli.sources.corpora.inputs import KINDS, CorpusFile, files_of
from attn_cli.sources.corpora.line_records import JsonLines, Lines, SeparatedRows, refuse_other_fields
from attn_cli.sources.corpora.packing import seekable, unpacked
from attn_cli.sources.corpora.pieces import pieces_of
from attn_cli.sources.corpora.record_reader import RecordReader
from attn_cli.sources.corpora.sample import Sample, drawn
from attn_cli.text import excerpt

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

    files   in the order in which they are read; one may be standard input, which is read once
    fields  names of the fields whose text is read, of records that have fields; with none "text", else "messages", else
            the only column of a table
    sample  which documents are read; None for all
    """

    files: tuple[CorpusFile, ...]
    fields: tuple[str, ...] = ()
    sample: Sample | None = None

    def documents(self, start: int = 0, stop: int | None = None) -> Iterator[Document | RejectedRecord]:
        """The documents with numbers from `start` up to and without `stop`, in order, and rejected records among them.

        stop  None for all to the end

        Records before `start` and outside of the sample are passed over without being parsed; where a file says how
        many it has (.parquet), without being read. Errors: InputError for a file that can't be read, or is a table
        without the column.
        """
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
                            raise InputError(f"only {texts:,} of the first {PROBED:,} records of standard input are "
                                             "texts", "check what is piped in")  # fmt: skip
                    number += 1

    def count(self) -> int | None:
        """The number of records, in the sample or not; None where standard input is among the files.

        Lines are counted, not parsed; a .parquet file says its number.
        """
        return None if any(file.is_stdin for file in self.files) else sum(map(self._count, self.files))

    def count_below(self, stop: int) -> int:
        """How many of the records numbered below `stop`, from 0, are in the sample; `stop` itself without a sample."""
        return stop if self.sample is None else self.sample.count_below(stop)

    def fingerprint(self) -> dict[str, Any]:
        """What tells later whether a corpus is the same: its files with a hash each, fields, sample.

        Standard input has no hash, as nothing is known of it before it is read.
        """
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
    """The corpus (documents as one sequence) of files, folders, globs, saved datasets and "-" for standard input.

    fields  names of the fields whose text is read; with none "text", else "messages", else the only column of a table
    kind    how the records of all files are separated: lines, jsonl, csv, tsv, parquet or arrow; None goes by suffixes,
            and takes standard input and unknown suffixes for lines
    sample  "5%" or "10000": a part, drawn with `seed`

    Raises InputError for inputs that are not there, for fields that none of the first records of a file has, and for a
    sample that can't be drawn.
    """
    corpus = Corpus(files_of(inputs, kind), tuple(fields))
    for file in corpus.files:
        if file.kind == "jsonl" and not file.is_stdin:
            with _stream(file) as stream:
                refuse_other_fields(stream, excerpt(file.name), corpus.fields)
        elif not file.is_stdin:
            with _opened(file, corpus.fields) as reader:
                reader.skip(1)  # what holds no text at all is said before a model is loaded
    return corpus if sample is None else replace(corpus, sample=drawn(sample, seed, corpus.count))


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
    """The content of a file as its kind is read: forwards, or from any place. InputError where it can't be opened."""
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
