"""Tables in the user's files: open_table_file."""

import csv
import gzip
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, cast

import numpy as np

from attn_cli.errors import InputError, LoadError, reason
from attn_cli.sources.files.parse_errors import parse_errors, refuse_pickle
from attn_cli.sources.files.paths import PathKind, expanded, kind_of_path, nearest_name
from attn_cli.sources.files.raw import SAMPLE, is_text, open_raw, sniff
from attn_cli.sources.tables.arrays import json_table, npz_table
from attn_cli.sources.tables.table import BLOCK, Vectors, WordTable
from attn_cli.text import counted, excerpt

_KINDS = "tables come as GloVe or word2vec text (.txt, .vec, .gz), .csv, .npz or .json"
LONGEST_LINE = 2**20
_WHOLE_NUMBER = re.compile(rb"\d{1,12}")


class WordRecord(NamedTuple):
    """One word with its vector, as bytes of a file; `first` is the word up to a blank."""

    first: bytes
    row: int
    raw: bytes


class TextFormat:
    """A text file of word vectors: a line for each word, the word and its numbers.

    A first line of two whole numbers (words, numbers each) is no word's. InputError names the line, from 1.
    """

    hint = "expected a word and its numbers on every line, as GloVe and word2vec write them"

    def __init__(self, file: BinaryIO, label: str) -> None:
        self.file, self.label = file, label
        file.seek(0)
        first, second = self._line(1), self._line(2)
        cells = first.removeprefix(b"\xef\xbb\xbf").split()
        # "5 1" is a header only if lines with 1 number follow.
        self.header = len(cells) == 2 and all(map(_WHOLE_NUMBER.fullmatch, cells)) and (
            not second.strip() or len(second.split()) == int(cells[1]) + 1 or len(second.split()) > 2
        )  # fmt: skip
        self.word_count = int(cells[0]) if self.header else None
        self.d = int(cells[1]) if self.header else len(cells) - 1
        self.begin = len(first) if self.header else len(first) - len(first.removeprefix(b"\xef\xbb\xbf"))
        if self.d < 1 or (self.header and not second.strip()):
            raise InputError(
                f"{label} line 1: {excerpt(_text(first.strip()), 40)!r} is not a word with numbers", self.hint
            )
        self.parse(next(self.records()))  # refuses a text that is no table before any look-up

    def records(self) -> Iterator[WordRecord]:
        """The lines of words with their vectors; blank lines may stand at the end."""
        row = 0
        self.file.seek(self.begin)
        while line := self._line(self._number(row)):
            if not line.strip():
                if self.file.read(LONGEST_LINE).strip():
                    raise InputError(f"{self.label} line {self._number(row)} is blank", self.hint)
                break
            first = self._first(line)
            if not first:
                raise InputError(f"{self.label} line {self._number(row)} has no word", self.hint)
            yield WordRecord(first, row, line)
            row += 1
        if self.word_count is not None and row < self.word_count:
            raise InputError(
                f"{self.label} is truncated: line 1 promises {self.word_count:,} words, {row:,} are there",
                "download it again, or correct the first line",
            )

    def _first(self, line: bytes) -> bytes:
        return line.split(None, 1)[0]

    def parse(self, record: WordRecord) -> tuple[str, Sequence[float]]:
        """A line's word, which may hold blanks, and the d numbers behind it."""
        cells = record.raw.rsplit(None, self.d)
        if len(cells) == self.d + 1 and b"_" not in record.raw[len(cells[0]) :]:  # float() takes 1_0 for 10
            try:
                numbers = list(map(float, cells[1:]))
            except ValueError:
                raise self._spoilt(record, record.raw.split()) from None
            if all(map(isfinite, numbers)) and (b" " not in cells[0] or not _is_number(cells[0].split()[-1])):
                return _text(cells[0].strip()), numbers
        raise self._spoilt(record, record.raw.split())

    def _spoilt(self, record: WordRecord, cells: Sequence[bytes]) -> InputError:
        place = f"{self.label} line {self._number(record.row)}"
        if len(cells) - 1 != self.d and all(map(_is_number, cells[1:])):
            first = f"line {self._number(0)} has" if self.word_count is None else "line 1 promises"
            return InputError(f"{place} has {counted(len(cells) - 1, 'number')}, {first} {self.d}", self.hint)
        word = excerpt(_text(cells[0]), 40)
        for cell in cells[1:]:
            if not _is_number(cell):
                return InputError(f"{place}: {excerpt(_text(cell), 40)!r} is not a number (word {word!r})", self.hint)
            if not isfinite(float(cell)):
                return InputError(
                    f"{place}: {excerpt(_text(cell), 40)} in the vector of {word!r}", "every number must be finite"
                )
        raise AssertionError(place)

    def _number(self, row: int) -> int:
        return row + 1 + self.header

    def _line(self, number: int) -> bytes:
        line = self.file.readline(LONGEST_LINE)
        if len(line) == LONGEST_LINE:
            raise InputError(f"{self.label} line {number} is longer than {LONGEST_LINE:,} bytes", self.hint)
        return line


_NAMES = (b"", b"word", b"words", b"token", b"tokens")  # of the column of words, where the others are numbered


class CsvFormat(TextFormat):
    """A .csv or .tsv file of word vectors: a word and its numbers on every line; the first line may hold names."""

    hint = "expected a word and its numbers on every line, with commas, semicolons or tabs between; no index column"

    def __init__(self, file: BinaryIO, label: str) -> None:
        self.file, self.label, self.word_count = file, label, None
        file.seek(0)
        first, second = self._line(1), self._line(2)
        self.begin = len(first) - len(first.removeprefix(b"\xef\xbb\xbf"))
        first, sample = first[self.begin :], second if second.strip() else first
        marks = [mark for mark in ";\t," if mark.encode() in sample]
        self.mark = next((mark for mark in marks if all(map(_is_number, _cells(sample, mark)[1:]))), (*marks, " ")[0])
        name, *names = _cells(first, self.mark) or [b""]
        numbered = ([b"%d" % (at + start) for at in range(len(names))] for start in (0, 1))
        self.header = not any(map(_is_number, names)) or (name.lower() in _NAMES and names in numbered)
        self.begin += len(first) if self.header else 0
        self.d = len(_cells(second, self.mark)) - 1 if self.header else len(names)
        if self.d < 1:
            line = 2 if self.header and second.strip() else 1
            words = excerpt(_text(sample.strip()), 40)
            raise InputError(f"{label} line {line}: {words!r} is not a word with numbers", self.hint)
        self.parse(next(self.records()))

    def _first(self, line: bytes) -> bytes:
        return _cells(line, self.mark)[0]

    def parse(self, record: WordRecord) -> tuple[str, Sequence[float]]:
        """A line's word and the d numbers behind it."""
        word, *cells = _cells(record.raw, self.mark)
        if len(cells) == self.d and all(map(_is_number, cells)):
            numbers = list(map(float, cells))
            if all(map(isfinite, numbers)):
                return _text(word), numbers
        raise self._spoilt(record, [word, *cells])


def _cells(line: bytes, mark: str) -> list[bytes]:
    """The cells of a line: the first, a word, may stand in quotes; a comma in the others is a decimal point."""
    text = line.decode("latin-1").rstrip("\r\n")
    cells = next(csv.reader([text], delimiter=mark), [])
    if len(cells) < 2:  # a quote that nothing closes is a word
        cells = text.split(mark)
    word, *numbers = (cell.encode("latin-1").strip() for cell in cells)
    return [word, *(cell.replace(b",", b".") if mark == ";" else cell for cell in numbers)]


def _text(word: bytes) -> str:
    return word.decode("utf-8", "backslashreplace")


def _is_number(cell: bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return b"_" not in cell


class RecordTable:
    """A table in a file that is read until the words looked up are found; only theirs are kept."""

    heads = 1
    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, name: str, format: TextFormat) -> None:
        self.name, self.format, self._seen = name, format, 0
        self._rows: dict[str, int | None] = {}
        self._vectors: dict[int, tuple[str, Sequence[float]]] = {}

    @property
    def extent(self) -> str:
        """How many words were read so far, as text such as "22,016 words": all of the file once one was not found."""
        return f"{self._seen:,} words"

    @property
    def width(self) -> int:
        """The count of numbers in a vector."""
        return self.format.d

    def look_up(self, words: Iterable[str]) -> None:
        """Find the rows of these words, as they are written or else in any case, in one pass over the file."""
        left = {word for word in words if word not in self._rows}
        by_key: dict[bytes, list[str]] = {}
        for word in left:
            by_key.setdefault(_lowered(word.encode("utf-8", "backslashreplace")), []).append(word)
        self._rows |= dict.fromkeys(left)
        with parse_errors(self.format.label):
            for record in self.format.records() if left else ():
                self._seen = max(self._seen, record.row + 1)
                if not (wanted := by_key.get(_lowered(record.first))):
                    continue
                word, vector = self.format.parse(record)
                for variant in wanted:
                    if variant.lower() == word.lower() and (self._rows[variant] is None or variant in left & {word}):
                        self._rows[variant] = record.row
                        self._vectors[record.row] = word, vector
                left.discard(word)
                if not left:
                    return

    def index(self, word: str) -> int | None:
        """The row of a word as it is written, or else in any case; None if the table lacks it."""
        self.look_up([word])
        return self._rows[word]

    def word(self, row: int) -> str:
        """The word in the row `row`, one that was looked up before."""
        return self._vectors[row][0]

    def rows(self, rows: Sequence[int], part: str = "vectors") -> Vectors:
        """The vectors `[len(rows), d]` of rows that were looked up before."""
        return np.array([self._vectors[row][1] for row in rows], dtype=np.float32).reshape(len(rows), self.format.d)

    def blocks(self) -> Iterator[tuple[int, Sequence[str], Vectors]]:
        """The whole file some words at a time: the row of the first, the words, their vectors `[words, d]`."""
        with parse_errors(self.format.label):
            yield from self._blocks()

    def _blocks(self) -> Iterator[tuple[int, Sequence[str], Vectors]]:
        words: list[str] = []
        numbers = array("f")
        first = 0
        for record in self.format.records():
            word, vector = self.format.parse(record)
            if not words:
                first = record.row
            words.append(word)
            numbers.extend(vector)
            if len(words) == BLOCK:
                yield first, words, np.frombuffer(numbers, np.float32).reshape(len(words), -1)
                words, numbers = [], array("f")
        if words:
            yield first, words, np.frombuffer(numbers, np.float32).reshape(len(words), -1)


def _lowered(word: bytes) -> bytes:
    return word.lower() if word.isascii() else word.decode("utf-8", "backslashreplace").lower().encode()


def open_table_file(name: str) -> WordTable:
    """The table of word vectors in a file: text, gzip of it, npz or JSON."""
    path = expanded(name)
    kind = kind_of_path(path, LoadError)
    if kind is PathKind.NOTHING:
        raise LoadError(f"no table at {excerpt(name)}: {kind.value}", nearest_name(path, _KINDS))
    if kind is not PathKind.FILE:
        raise LoadError(f"no table at {excerpt(name)}: it is {kind.value}", _KINDS)
    if path.name == "config.json" and (path.parent / "config.json").is_file():
        raise LoadError(f"{excerpt(name)} is a file of a model", f"give its folder: {excerpt(str(path.parent))}")
    label = excerpt(str(path))
    try:
        stream: IO[bytes] = path.open("rb")
    except OSError as error:
        raise LoadError(f"{label} can't be read: {reason(error)}", "check its permissions") from error
    with parse_errors(label):
        return _table(stream, path, label)


def _table(stream: IO[bytes], path: Path, label: str) -> WordTable:
    start = stream.read(SAMPLE)
    kind = sniff(start)
    if start.startswith(b"\x1f\x8b"):
        stream.seek(0)
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=stream))
        start = stream.read(SAMPLE)
    elif kind == ".npz":
        return npz_table(open_raw(str(path), None))
    elif path.suffix.lower() == ".json":  # by suffix, not by its first byte: { is a word of GloVe too
        return json_table(open_raw(str(path), None))
    if not start.strip():
        raise InputError(f"{label} is empty", _KINDS)
    refuse_pickle(start, label)
    if not is_text(start):
        raise InputError(f"{label} is not a table of words", f"{_KINDS}; a model is given by its folder")
    text_format = CsvFormat if {".csv", ".tsv"} & {suffix.lower() for suffix in path.suffixes} else TextFormat
    return RecordTable(path.name, text_format(cast(BinaryIO, stream), label))
