"""Word vectors as word2vec's own program writes them: a line with two counts, then words and float32 numbers."""

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.tables.records import WordRecord
from attn_cli.text import excerpt

_LONGEST_WORD = 1000
_CHUNK = 2**20
_HINT = "is it a word2vec file, and whole?"
_COUNTS = re.compile(rb"(\d{1,12}) (\d{1,12})\n")


class BinaryFormat:
    """A file of word vectors as word2vec writes it: words with d float32 numbers each, after a line with two counts.

    Each is the word, a blank, d little-endian numbers and perhaps a line end. `label` is the file's name in messages,
    `most_bytes` what it may hold, unpacked. Errors: InputError that names the word by its number, from 1.
    """

    def __init__(self, file: BinaryIO, label: str, most_bytes: int) -> None:
        self.file, self.label = file, label
        file.seek(0)
        header = _COUNTS.match(file.readline(100))
        if header is None:
            raise InputError(f"{label}: the first line doesn't say how many words and numbers", _HINT)
        self.count, self.d = map(int, header.groups())
        self.begin = header.end()
        if not 1 <= self.d <= most_bytes // 4:
            raise InputError(f"{label}: the first line promises {self.d:,} numbers a word", _HINT)

    def records(self, row: int, start: int) -> Iterator[WordRecord]:
        """The words with their vectors as bytes, from number `row` on, as many as the first line states.

        start  the offset of the first in bytes; 0 for the beginning
        """
        place, buffer, at = start or self.begin, b"", 0  # the buffer holds the file from byte `place` on
        while row < self.count:
            blank = buffer.find(b" ", at)
            stop = blank + 1 + 4 * self.d
            if blank < 0 or stop > len(buffer):
                self.file.seek(place + len(buffer))
                more = self.file.read(max(_CHUNK, len(buffer)))  # twice as much each time, however long a vector is
                if not more or (blank < 0 and len(buffer) - at > _LONGEST_WORD):
                    raise self._broken(row)
                place, buffer, at = place + at, buffer[at:] + more, 0
                continue
            yield WordRecord(buffer[at:blank].lstrip(b"\n"), row, place + at, place + stop, buffer[at:stop])
            row, at = row + 1, stop

    def parse(self, record: WordRecord) -> tuple[str, Sequence[float]]:
        """The word and its d numbers, from a record's bytes; InputError for NaN or Inf."""
        word = record.first.decode("utf-8", "backslashreplace")
        numbers = np.frombuffer(record.raw[-4 * self.d :], "<f4")
        if not np.isfinite(numbers).all():
            raise InputError(
                f"{self.label}: the vector of {excerpt(word, 40)!r} (word {record.row + 1:,}) has NaN or Inf",
                "is the file whole?",
            )
        return word, numbers.tolist()

    def _broken(self, row: int) -> InputError:
        return InputError(
            f"{self.label} is truncated: the first line promises {self.count:,} words, {row:,} are there",
            "download it again",
        )
