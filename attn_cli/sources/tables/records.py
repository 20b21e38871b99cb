"""Tables in files of records, a word and its vector each, which are read from the front and only as far as needed."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.tables.table import BLOCK, Vectors


class WordRecord(NamedTuple):
    """One word with its vector, as bytes start:stop of a file; `first` is the word up to a blank."""

    first: bytes
    row: int
    start: int
    stop: int
    raw: bytes


class RecordFormat(Protocol):
    """How a file of word vectors is cut into records, a word with d numbers each; `label` names it in messages."""

    d: int
    label: str

    def records(self, row: int, start: int) -> Iterator[WordRecord]:
        """The records (a word with its vector) from number `row` on; `start` is the first one's offset in bytes."""

    def parse(self, record: WordRecord) -> tuple[str, Sequence[float]]:
        """The word and its numbers; InputError for what isn't a vector of d finite numbers."""


class RecordTable:
    """A table in a file that is read on until the words looked up are found; only theirs are kept."""

    heads = 1
    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, name: str, format: RecordFormat) -> None:
        self.name, self.format = name, format
        self._next = (0, 0)  # number and offset of the first record not yet read
        self._hashes, self._places = array("q"), array("q")
        self._rows: dict[str, int] = {}
        self._vectors: dict[int, tuple[str, Sequence[float]]] = {}
        self._missing: set[str] = set()
        self._at_end = False

    @property
    def extent(self) -> str:
        """How many words were read so far, as text such as "22,016 words": all of the file once one was not found."""
        return f"{len(self._hashes):,} words"

    @property
    def width(self) -> int:
        """The count of numbers in a vector."""
        return self.format.d

    def look_up(self, words: Iterable[str]) -> None:
        """Find the rows of these words in the file: among words read already, then by reading on."""
        with parse_errors(self.format.label):
            self._find({word for word in words if word not in self._rows and word not in self._missing})

    def _find(self, new_words: set[str]) -> None:
        open_keys: dict[int, set[str]] = {}
        for word in new_words:
            open_keys.setdefault(_key(word.encode("utf-8", "backslashreplace")), set()).add(word)
        other_case_rows: dict[str, int] = {}  # rows of words that the file has in another case
        for record in self._candidates(open_keys):
            self._take(record, open_keys, other_case_rows)
        if open_keys and not self._at_end:
            self._walk_on(open_keys, other_case_rows)
        for word in set().union(*open_keys.values()):
            if word in other_case_rows:
                self._rows[word] = other_case_rows[word]
            else:
                self._missing.add(word)

    def index(self, word: str) -> int | None:
        """The row of a word as it is written, or else in any case; None if the table lacks it."""
        if word not in self._rows and word not in self._missing:
            self.look_up([word])
        return self._rows.get(word)

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
        for record in self.format.records(0, 0):
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

    def _walk_on(self, open_keys: dict[int, set[str]], other_case_rows: dict[str, int]) -> None:
        for record in self.format.records(*self._next):
            key = _key(record.first)
            self._hashes.append(key)
            self._places.append(record.start)
            self._next = (record.row + 1, record.stop)
            if key in open_keys:
                self._take(record, open_keys, other_case_rows)
                if not open_keys:
                    return
        self._at_end = True

    def _candidates(self, open_keys: dict[int, set[str]]) -> Iterator[WordRecord]:
        hashes = np.array(self._hashes)  # a copy: an array with a view of it can't grow
        for row in np.flatnonzero(np.isin(hashes, np.array(list(open_keys), dtype=np.int64))):
            yield next(self.format.records(int(row), self._places[int(row)]))

    def _take(self, record: WordRecord, open_keys: dict[int, set[str]], other_case_rows: dict[str, int]) -> None:
        key = _key(record.first)
        open_words = open_keys.get(key, set())
        if not open_words:
            return
        word, vector = self.format.parse(record)
        if word in open_words:
            self._rows[word] = record.row
            open_words.discard(word)
        variants = [variant for variant in open_words if variant.lower() == word.lower()]
        for variant in variants:
            other_case_rows.setdefault(variant, record.row)
        if variants or self._rows.get(word) == record.row:
            self._vectors.setdefault(record.row, (word, vector))
        if not open_words:
            del open_keys[key]


def _key(word: bytes) -> int:
    return hash(word.lower() if word.isascii() else word.decode("utf-8", "backslashreplace").lower().encode())
