"""Word vectors as lines of text, as GloVe and word2vec write them: a word, then its numbers, parted by blanks."""

import re
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import BinaryIO

from attn_cli.errors import InputError
from attn_cli.sources.tables.records import WordRecord
from attn_cli.text import counted, excerpt

LONGEST_LINE = 2**20
_LINE = "expected a word and its numbers on every line, as GloVe and word2vec write them"
_WHOLE_NUMBER = re.compile(rb"\d{1,12}")


class TextFormat:
    """A text file of word vectors: a line for each word, the word and its numbers.

    A first line of two whole numbers (how many words, how many numbers each) is no word's. Errors: InputError that
    names the line, from 1, of what can't be read.
    """

    def __init__(self, file: BinaryIO, label: str) -> None:
        self.file, self.label = file, label
        file.seek(0)
        first, second = self._line(1), self._line(2)
        cells = first.removeprefix(b"\xef\xbb\xbf").split()
        # "5 1" may be a header or a word with one number; as a header it must be followed by lines with 1 number.
        self.header = len(cells) == 2 and all(map(_WHOLE_NUMBER.fullmatch, cells)) and (
            not second.strip() or len(second.split()) == int(cells[1]) + 1 or len(second.split()) > 2
        )  # fmt: skip
        self.word_count = int(cells[0]) if self.header else None
        self.d = int(cells[1]) if self.header else len(cells) - 1
        self.begin = len(first) if self.header else len(first) - len(first.removeprefix(b"\xef\xbb\xbf"))
        if self.d < 1 or (self.header and not second.strip()):
            raise InputError(f"{label} line 1: {excerpt(_text(first.strip()), 40)!r} is not a word with numbers", _LINE)
        self.parse(next(self.records(0, 0)))  # refuses a text that is no table before any look-up

    def records(self, row: int, start: int) -> Iterator[WordRecord]:
        """The lines of words with their vectors, from number `row` on; blank lines may stand at the end."""
        start = start or self.begin
        self.file.seek(start)
        while line := self._line(self._number(row)):
            cells = line.split(None, 1)
            if not cells:
                if self.file.read(LONGEST_LINE).strip():
                    raise InputError(f"{self.label} line {self._number(row)} is blank", _LINE)
                break
            yield WordRecord(cells[0], row, start, start + len(line), line)
            row, start = row + 1, start + len(line)
        if self.word_count is not None and row < self.word_count:
            raise InputError(
                f"{self.label} is truncated: line 1 promises {self.word_count:,} words, {row:,} are there",
                "download it again, or correct the first line",
            )

    def parse(self, record: WordRecord) -> tuple[str, Sequence[float]]:
        """A line's word, which may hold blanks, and the d numbers behind it."""
        cells = record.raw.rsplit(None, self.d)
        if len(cells) == self.d + 1 and b"_" not in record.raw[len(cells[0]) :]:  # float() takes 1_0 for 10
            try:
                numbers = list(map(float, cells[1:]))
            except ValueError:
                raise self._spoilt(record) from None
            if all(map(isfinite, numbers)) and (b" " not in cells[0] or not _is_number(cells[0].split()[-1])):
                return _text(cells[0].strip()), numbers
        raise self._spoilt(record)

    def _spoilt(self, record: WordRecord) -> InputError:
        """The error for a line that can't be parsed, with its number."""
        place = f"{self.label} line {self._number(record.row)}"
        cells = record.raw.split()
        if len(cells) - 1 != self.d and all(map(_is_number, cells[1:])):
            first = "line 1 promises" if self.header else "line 1 has"
            return InputError(f"{place} has {counted(len(cells) - 1, 'number')}, {first} {self.d}", _LINE)
        word = excerpt(_text(cells[0]), 40)
        for cell in cells[1:]:
            if not _is_number(cell):
                return InputError(f"{place}: {excerpt(_text(cell), 40)!r} is not a number (word {word!r})", _LINE)
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
            raise InputError(f"{self.label} line {number} is longer than {LONGEST_LINE:,} bytes", _LINE)
        return line


def _text(word: bytes) -> str:
    return word.decode("utf-8", "backslashreplace")


def _is_number(cell: bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return b"_" not in cell
