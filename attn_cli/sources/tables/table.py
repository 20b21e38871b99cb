"""A table of word vectors in memory: one word, one vector, whatever surrounds it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from attn_cli.errors import InputError

Vectors = npt.NDArray[np.float32 | np.float64]
BLOCK = 4096  # words per block when the whole table is read


@dataclass(frozen=True, eq=False)
class VectorTable:
    """A table of word vectors, cut into `heads`; some tables have queries, keys and values of their own."""

    name: str
    words: tuple[str, ...]
    vectors: Vectors
    q: Vectors | None = None
    k: Vectors | None = None
    v: Vectors | None = None
    heads: int = field(default=1, kw_only=True)

    def look_up(self, words: Iterable[str]) -> None:
        """Do nothing: a table in memory has all its words."""

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

    def word(self, row: int) -> str:
        """The word of a row."""
        return self.words[row]

    def rows(self, rows: Sequence[int], part: str = "vectors") -> Vectors:
        """The vectors `[len(rows), d]` of rows, or `part` "q", "k" or "v"; InputError where one has NaN or Inf."""
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
        return _first_rows([word.lower() for word in self.words])


def _first_rows(words: Sequence[str]) -> dict[str, int]:
    # From the back, so that of two equal words the first one stays.
    return {words[row]: row for row in reversed(range(len(words)))}
