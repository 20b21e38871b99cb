"""Tables in text files: a word and its numbers on every line."""

import csv
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any, BinaryIO

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.tables import BLOCK, Vectors
from attn_cli.text import counted, excerpt

_LONGEST_LINE = 2**20
_WHOLE_NUMBER = re.compile(rb"\d{1,12}")
_BOM = b"\xef\xbb\xbf"
_NAMES = (b"", b"word", b"words", b"token", b"tokens")  # of the column of words, where the others are numbered
_EXPECTED = "expected a word and its numbers on every line, "


class TextTable:
    """A table in a text file, read until the words looked up are found; only theirs are kept.

    GloVe and word2vec have blanks between numbers, and perhaps a first line of two counts: words, numbers each. In .csv
    and .tsv the first line may hold names. InputError names the line, from 1.
    """

    heads = 1
    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, file: BinaryIO, name: str, label: str, *, is_csv: bool = False) -> None:
        self.name, self._file, self._label = name, file, label
        how = (
            "with commas, semicolons or tabs between; no index column" if is_csv else "as GloVe and word2vec write them"
        )
        self._hint = _EXPECTED + how
        self._seen, self._mark = 0, ""  # lines read; between cells of .csv
        self._promised: int | None = None
        self._rows: dict[str, int | None] = {}
        self._vectors: dict[int, tuple[str, Sequence[float]]] = {}
        file.seek(0)
        first, second = self._line(1), self._line(2)
        bom = len(first) - len(first.removeprefix(_BOM))
        self._header = self._read_names(first[bom:], second) if is_csv else self._read_counts(first[bom:], second)
        self._begin = len(first) if self._header else bom
        if self.width < 1 or (self._header and not second.strip()):
            at, line = (2, second) if self._header and second.strip() else (1, first[bom:])
            shown = excerpt(_text(line.strip()), 40)
            raise InputError(f"{label} line {at}: {shown!r} is not a word with numbers", self._hint)
        for row, line, _ in self._lines():  # refuses a text that is no table before any look-up
            self._parse(row, line)
            break

    def _read_counts(self, first: bytes, second: bytes) -> bool:
        """Note how many numbers a word has; True if the first line says so."""
        cells, more = first.split(), len(second.split())
        self.width = len(cells) - 1
        if len(cells) != 2 or not all(map(_WHOLE_NUMBER.fullmatch, cells)):
            return False
        if more and more != int(cells[1]) + 1 and more <= 2:  # "5 1" is a word, unless lines with 1 number follow
            return False
        self._promised, self.width = map(int, cells)
        return True

    def _read_names(self, first: bytes, second: bytes) -> bool:
        """Note what stands between cells, and how many numbers a word has; True if the first line has names."""
        sample = second if second.strip() else first
        marks = [mark for mark in ";\t," if mark.encode() in sample]
        self._mark = next((mark for mark in marks if all(map(_is_number, _cells(sample, mark)[1:]))), (*marks, " ")[0])
        name, *names = _cells(first, self._mark) or [b""]
        numbered = ([b"%d" % (at + start) for at in range(len(names))] for start in (0, 1))
        has_names = not any(map(_is_number, names)) or (name.lower() in _NAMES and names in numbered)
        self.width = len(_cells(second, self._mark)) - 1 if has_names else len(names)
        return has_names

    def _lines(self) -> Iterator[tuple[int, bytes, bytes]]:
        """The row, the line and its word up to a blank, of each word; blank lines may stand at the end."""
        row = 0
        self._file.seek(self._begin)
        while line := self._line(self._number(row)):
            if not line.strip():
                if self._file.read(_LONGEST_LINE).strip():
                    raise InputError(f"{self._label} line {self._number(row)} is blank", self._hint)
                break
            first = _cells(line, self._mark)[0] if self._mark else line.split(None, 1)[0]
            if not first:
                raise InputError(f"{self._label} line {self._number(row)} has no word", self._hint)
            yield row, line, first
            row += 1
        if self._promised is not None and row < self._promised:
            raise InputError(
                f"{self._label} is truncated: line 1 promises {self._promised:,} words, {row:,} are there",
                "download it again, or correct the first line",
            )

    def _line(self, number: int) -> bytes:
        line = self._file.readline(_LONGEST_LINE)
        if len(line) == _LONGEST_LINE:
            raise InputError(f"{self._label} line {number} is longer than {_LONGEST_LINE:,} bytes", self._hint)
        return line

    def _number(self, row: int) -> int:
        return row + 1 + self._header

    def _parse(self, row: int, line: bytes) -> tuple[str, Sequence[float]]:
        """A line's word, which may hold blanks, and its numbers."""
        word, *cells = _cells(line, self._mark) if self._mark else line.rsplit(None, self.width)
        if not self._mark and b" " in word and _is_number(word.split()[-1]):  # one number more
            word, *cells = line.split()
        try:
            numbers = [] if b"_" in b" ".join(cells) else [*map(float, cells)]  # float() takes 1_0 for 10
        except ValueError:
            numbers = []
        if len(numbers) == self.width and all(map(isfinite, numbers)):
            return _text(word.strip()), numbers
        place, shown = f"{self._label} line {self._number(row)}", excerpt(_text(word), 40)
        for cell in cells:
            if not _is_number(cell):
                raise InputError(f"{place}: {excerpt(_text(cell), 40)!r} is not a number (word {shown!r})", self._hint)
        if len(cells) != self.width:
            first = f"line {self._number(0)} has" if self._promised is None else "line 1 promises"
            raise InputError(f"{place} has {counted(len(cells), 'number')}, {first} {self.width}", self._hint)
        cell = next(cell for cell in cells if not isfinite(float(cell)))
        raise InputError(f"{place}: {excerpt(_text(cell), 40)} in the vector of {shown!r}", "numbers must be finite")

    @property
    def extent(self) -> str:
        """How many words were read so far, as text such as "22,016 words": all of the file once one was not found."""
        return f"{self._seen:,} words"

    def look_up(self, words: Iterable[str]) -> None:
        """Find the rows of these words, as they are written or else in any case, in one pass over the file."""
        left = {word for word in words if word not in self._rows}
        by_key: dict[bytes, list[str]] = {}
        for word in left:
            by_key.setdefault(_lowered(word.encode("utf-8", "backslashreplace")), []).append(word)
        self._rows |= dict.fromkeys(left)
        with parse_errors(self._label):
            for row, line, first in self._lines() if left else ():
                self._seen = max(self._seen, row + 1)
                if not (wanted := by_key.get(_lowered(first))):
                    continue
                word, vector = self._parse(row, line)
                for variant in wanted:
                    if variant.lower() == word.lower() and (self._rows[variant] is None or variant in left & {word}):
                        self._rows[variant] = row
                        self._vectors[row] = word, vector
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
        return np.array([self._vectors[row][1] for row in rows], dtype=np.float32).reshape(len(rows), self.width)

    def blocks(self) -> Iterator[tuple[int, Sequence[str], Vectors]]:
        """The whole file some words at a time: the row of the first, the words, their vectors `[words, d]`."""
        words: list[str] = []
        numbers = array("f")
        with parse_errors(self._label):
            for row, line, _ in self._lines():
                word, vector = self._parse(row, line)
                words.append(word)
                numbers.extend(vector)
                if len(words) == BLOCK:
                    yield row + 1 - BLOCK, words, np.frombuffer(numbers, np.float32).reshape(BLOCK, -1)
                    words, numbers = [], array("f")
            if words:
                yield row + 1 - len(words), words, np.frombuffer(numbers, np.float32).reshape(len(words), -1)


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


def _lowered(word: bytes) -> bytes:
    return word.lower() if word.isascii() else word.decode("utf-8", "backslashreplace").lower().encode()
