"""A table of word vectors: one word, one vector, whatever surrounds it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from attn_cli.errors import InputError

Vectors = npt.NDArray[np.float32 | np.float64]
BLOCK = 4096  # words per block when the whole table is read


class WordTable(Protocol):
    """A table of word vectors, in memory or in a file.

    heads   into how many heads its vectors are cut
    extent  what it holds, as text: "22,016 words", or the words themselves
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def heads(self) -> int: ...  # noqa: D102

    @property
    def extent(self) -> str: ...  # noqa: D102

    @property
    def width(self) -> int: ...  # noqa: D102

    @property
    def dtype(self) -> np.dtype[Any]: ...  # noqa: D102

    def look_up(self, words: Iterable[str]) -> None:
        """Find the rows of these words in one call, since a file is read from the front; `index` then gives each."""

    def index(self, word: str) -> int | None:
        """The row of a word: as it is written or, failing that, in any case; None for a word that isn't there."""

    def word(self, row: int) -> str:
        """The word of a row that was looked up, in the table's spelling."""

    def rows(self, rows: Sequence[int], part: str = "vectors") -> Vectors:
        """The vectors `[len(rows), d]` of rows, or `part` "q", "k" or "v": the table's own queries, keys or values."""

    def blocks(self) -> Iterator[tuple[int, Sequence[str], Vectors]]:
        """The whole table, some thousand words at a time: the row of the first, the words, and their vectors."""


@dataclass(frozen=True, eq=False)
class VectorTable:
    """A table of word vectors in memory; some tables have queries, keys and values of their own."""

    name: str
    words: tuple[str, ...]
    vectors: Vectors
    heads: int
    q: Vectors | None = None
    k: Vectors | None = None
    v: Vectors | None = None

    def index(self, word: str) -> int | None:
        """The row of a word: as it is written or, failing that, in any case; None for a word that isn't there."""
        row = self._rows.get(word)
        return self._lowered_rows.get(word.lower()) if row is None else row

    @property
    def extent(self) -> str:
        """What the table holds, as text: the words themselves if they are 12 at most, else how many there are."""
        return ", ".join(self.words) if len(self.words) <= 12 else f"{len(self.words):,} words"

    @property
    def width(self) -> int:
        """The count of numbers in a vector."""
        return int(self.vectors.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the vectors."""
        return self.vectors.dtype

    def look_up(self, words: Iterable[str]) -> None:
        """Do nothing: a table in memory has all its words."""

    def word(self, row: int) -> str:
        """The word of a row."""
        return self.words[row]

    def rows(self, rows: Sequence[int], part: str = "vectors") -> Vectors:
        """The vectors `[len(rows), d]` of rows, in float32 or float64; InputError where one has NaN or Inf."""
        own = getattr(self, part)
        vectors: Vectors = (self.vectors if own is None else own)[np.array(rows, dtype=np.intp)]
        return self._checked(vectors, rows)

    def blocks(self) -> Iterator[tuple[int, Sequence[str], Vectors]]:
        """The whole table, some thousand words at a time: the row of the first, the words, and their vectors."""
        for start in range(0, len(self.words), BLOCK):
            rows = range(start, min(start + BLOCK, len(self.words)))
            yield start, self.words[rows.start : rows.stop], self._checked(self.vectors[rows.start : rows.stop], rows)

    def _checked(self, vectors: Vectors, rows: Sequence[int]) -> Vectors:
        if vectors.dtype.itemsize < 4:
            vectors = vectors.astype(np.float32)
        if not np.isfinite(vectors).all():
            word = self.words[rows[int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])]]
            raise InputError(f"{self.name}: the vector of {word!r} has NaN or Inf", "is the file whole?")
        return vectors

    @cached_property
    def _rows(self) -> dict[str, int]:
        return _first_rows(self.words)

    @cached_property
    def _lowered_rows(self) -> dict[str, int]:
        return _first_rows(tuple(word.lower() for word in self.words))


def _first_rows(words: tuple[str, ...]) -> dict[str, int]:
    # From the back, so that of two equal words the first one stays.
    return {words[row]: row for row in reversed(range(len(words)))}
