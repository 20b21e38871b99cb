"""Files that hold one word and its vector after the other, read from front to back: only as far as they must be.

A format says how to walk its records (`text.py`, `binary.py`); here is what all share: finding the asked words.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from attn_cli.sources.tables.table import BLOCK, Vectors


class Record(NamedTuple):
    """One word with its vector, not yet understood.

    first  the word, or its first part up to a blank; bytes as they stand in the file
    row    the number of the record, from 0
    start  the place of its first byte; stop, one past its last
    raw    the bytes of the record
    """

    first: bytes
    row: int
    start: int
    stop: int
    raw: bytes


class RecordFormat(Protocol):
    """How one file is cut into records; d numbers in each vector."""

    d: int

    def records(self, row: int, start: int) -> Iterator[Record]:
        """The records from number `row` on, which begins at byte `start`; 0, 0 for the first of all."""

    def parse(self, record: Record) -> tuple[str, Sequence[float]]:
        """The word and its numbers; InputError for what isn't a vector of d finite numbers."""


class RecordTable:
    """A table in such a file: words are looked up where they stand, nothing else is kept of it.

    What was passed is remembered as 16 bytes a word (a hash and a place), so that no word is searched twice. A search
    ends where all its words were found as they are written; for a word in another case the whole file is read once.
    """

    heads = 1
    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, name: str, format: RecordFormat) -> None:
        self.name, self.format = name, format
        self._next = (0, 0)  # row and place where the walk goes on
        self._hashes, self._places = array("q"), array("q")
        self._rows: dict[str, int] = {}
        self._vectors: dict[int, tuple[str, Sequence[float]]] = {}
        self._missing: set[str] = set()
        self._at_end = False

    @property
    def extent(self) -> str:
        """How many words were passed, which are all where one is missing."""
        return f"{len(self._hashes):,} words"

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return self.format.d

    def look_up(self, words: Iterable[str]) -> None:
        """Find these words: among the records passed, then by walking on."""
        new_words = {word for word in words if word not in self._rows and word not in self._missing}
        open_keys: dict[int, set[str]] = {}
        for word in new_words:
            open_keys.setdefault(_key(word.encode("utf-8", "backslashreplace")), set()).add(word)
        other_case_rows: dict[str, int] = {}  # words that stand there in another case
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
        """The row of a word that was looked up, as written or else in any case; None if it isn't there."""
        if word not in self._rows and word not in self._missing:
            self.look_up([word])
        return self._rows.get(word)

    def word(self, row: int) -> str:
        """The word of a row that was found."""
        return self._vectors[row][0]

    def rows(self, rows: Sequence[int], part: str = "vectors") -> Vectors:
        """The vectors of rows that were found; they are q, k and v too."""
        return np.array([self._vectors[row][1] for row in rows], dtype=np.float32).reshape(len(rows), self.format.d)

    def blocks(self) -> Iterator[tuple[int, Sequence[str], Vectors]]:
        """The whole file, from its first record."""
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

    def _candidates(self, open_keys: dict[int, set[str]]) -> Iterator[Record]:
        """The records passed before whose words may be among those asked, read again."""
        hashes = np.array(self._hashes)  # a copy: an array that is being looked at can't grow
        for row in np.flatnonzero(np.isin(hashes, np.array(list(open_keys), dtype=np.int64))):
            yield next(self.format.records(int(row), self._places[int(row)]))

    def _take(self, record: Record, open_keys: dict[int, set[str]], other_case_rows: dict[str, int]) -> None:
        """Keep the record if it is one of the asked words; of equal words the first stays."""
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
    """One number for a word in any case."""
    return hash(word.lower() if word.isascii() else word.decode("utf-8", "backslashreplace").lower().encode())
