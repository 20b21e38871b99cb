"""Tables of word vectors that come with attn; introductions work through the small ones by hand."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
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
        """The vectors `[len(rows), d]` of rows, or `part` "q", "k" or "v"."""
        own = getattr(self, part)
        return _widened((self.vectors if own is None else own)[np.array(rows, dtype=np.intp)])

    def blocks(self) -> Iterator[tuple[int, Sequence[str], Vectors]]:
        """The whole table, some thousand words at a time: the row of the first, the words, and their vectors."""
        for start in range(0, len(self.words), BLOCK):
            stop = start + BLOCK
            yield start, self.words[start:stop], _widened(self.vectors[start:stop])

    @cached_property
    def _rows(self) -> dict[str, int]:
        return _first_rows(self.words)

    @cached_property
    def _lowered_rows(self) -> dict[str, int]:
        return _first_rows([word.lower() for word in self.words])


def _widened(vectors: Vectors) -> Vectors:
    return vectors.astype(np.float32) if vectors.dtype.itemsize < 4 else vectors


def _first_rows(words: Sequence[str]) -> dict[str, int]:
    # From the back, so that of two equal words the first one stays.
    return {words[row]: row for row in reversed(range(len(words)))}


MINILM_FILE = Path(__file__).with_name("minilm.npz")
_ANKIT = ("My", "name", "is", "Ankit")
_ANKIT_ROWS = [[0.12, 0.33], [0.51, -0.20], [0.22, 0.78], [0.88, 0.12]]
# words, and rows of their vectors, of q, k and v
_SMALL: dict[str, tuple[tuple[str, ...], list[Sequence[Sequence[float]]]]] = {
    "the-cat-sat": (
        ("the", "cat", "sat"),
        [
            [[0.2, 0.7, 0.1, 0.4], [0.8, 0.3, 0.5, 0.2], [0.1, 0.6, 0.9, 0.4]],
            [[0.3, 0.6, 0.1, 0.2], [0.7, 0.4, 0.5, 0.3], [0.2, 0.5, 0.8, 0.4]],
            [[0.5, 0.2, 0.4, 0.1], [0.6, 0.7, 0.3, 0.2], [0.4, 0.3, 0.7, 0.6]],
            [[0.1, 0.4, 0.2, 0.5], [0.5, 0.6, 0.3, 0.1], [0.7, 0.2, 0.4, 0.8]],
        ],
    ),
    "my-name-is-ankit": (_ANKIT, [_ANKIT_ROWS]),
    "my-name-is-ankit-projected": (
        _ANKIT,
        [_ANKIT_ROWS, [[1, 0], [0, 1], [1, 1], [2, 1]], [[1, 1], [0, 2], [1, 0], [2, 1]]],
    ),
    "the-cat-sat-down": (("The", "cat", "sat", "down"), [[[1, 0, 0], [0, 1, 0.2], [0.1, 0.2, 1], [0, 0, 1]]]),
}
TABLE_NAMES = ("minilm", *_SMALL)


def open_table(name: str = "") -> VectorTable:
    """The built-in table of that name; the empty name means `minilm`. InputError for others."""
    if name in ("", "minilm"):
        with np.load(MINILM_FILE, allow_pickle=False) as file:
            words, vectors = file["words"].tobytes().decode("utf-8").split("\n"), file["vectors"]
        # float16, half as large; rows and blocks are float32, in which sums of products stay exact
        return VectorTable("minilm", tuple(words), vectors, heads=4)
    if name not in _SMALL:
        raise InputError(f"no built-in table is named {name!r}", f"the built-in tables are {', '.join(TABLE_NAMES)}")
    known, parts = _SMALL[name]
    return VectorTable(name, known, *(np.array(part, dtype=np.float64) for part in parts))
