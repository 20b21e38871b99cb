"""A table of word vectors: one word, one vector, whatever surrounds it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32 | np.float64]


@dataclass(frozen=True, eq=False)
class Table:
    """Words and their vectors, in one order; some tables bring their own queries, keys and values.

    vectors [words, d]; q and k [words, d_q]; v [words, e]; each of q, k, v is None where the table doesn't bring it,
    and the vectors then stand in for it. `heads` divides d. `about` is one line that names origin and licence.

    >>> table = Table("pair", ("My", "name"), np.eye(2), heads=1, about="")
    >>> table.index("name"), table.index("MY"), table.index("is")
    (1, 0, None)
    """

    name: str
    words: tuple[str, ...]
    vectors: Vectors
    heads: int
    about: str
    q: Vectors | None = None
    k: Vectors | None = None
    v: Vectors | None = None

    def index(self, word: str) -> int | None:
        """The row of a word: as it is written or, failing that, in any case; None for a word that isn't there."""
        row = self._rows.get(word)
        return self._lowered_rows.get(word.lower()) if row is None else row

    @cached_property
    def _rows(self) -> dict[str, int]:
        return _first_rows(self.words)

    @cached_property
    def _lowered_rows(self) -> dict[str, int]:
        return _first_rows(tuple(word.lower() for word in self.words))


def _first_rows(words: tuple[str, ...]) -> dict[str, int]:
    # From the back, so that of two equal words the first one stays.
    return {words[row]: row for row in reversed(range(len(words)))}
