"""attn nearest: the words nearest to a sum of words, by the angle between their vectors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import ClassVar

import numpy as np

from attn_cli.errors import InputError
from attn_cli.fields import COSINE, COUNT, TEXT, Field, Output, Rows, each
from attn_cli.summaries.report import Answer

_WORD = (
    Field("rank", COUNT, "0 for the nearest", itemgetter(0)),
    Field("word", TEXT, "as the table writes it", itemgetter(1)),
    Field("id", COUNT, "its row in the table", itemgetter(2)),
    Field("cosine", COSINE, "of its vector and the sum of the query's vectors, each normalised", itemgetter(3)),
)
FIELDS = (
    Field("signs", each({"enum": [1, -1]}), "for every token of the input whether its vector was added or taken away"),
    Field("nearest", Rows(_WORD), "nearest first", "ranked"),
)
OUTPUT = Output("attn.nearest/1", "The nearest words of a table of word vectors.", FIELDS)


@dataclass(frozen=True, eq=False)
class Neighbours(Answer):
    """The k nearest words, nearest first, with their rows in the table and their cosines.

    signs   1 or -1 for every word of the question, whose labels are the prompt's tokens
    target  the vector that they were compared with `[d]`: signed sum of the words' vectors, each made 1 long
    """

    name: ClassVar[str] = "nearest"
    fields: ClassVar[Sequence[Field]] = FIELDS
    table: ClassVar[str] = "nearest"

    words: tuple[str, ...]
    rows: tuple[int, ...]
    cosines: np.ndarray
    signs: tuple[int, ...]
    target: np.ndarray

    @property
    def ranked(self) -> list[tuple[int, str, int, float]]:
        """Rank from 0, word, row in the table and cosine of each word, nearest first."""
        return list(zip(range(len(self.words)), self.words, self.rows, self.cosines.tolist(), strict=True))

    def arrays(self) -> dict[str, np.ndarray]:
        """`words`, `ids` (rows in the table) and `cosines` `[k]` of the k nearest words, in order, and `target`
        `[d]`.
        """
        return {
            "words": np.array(self.words, dtype=np.str_),
            "ids": np.array(self.rows, dtype=np.int64),
            "cosines": self.cosines,
            "target": self.target,
        }


def nearest(
    signs: Sequence[int],
    vectors: np.ndarray,
    without: Iterable[int],
    blocks: Iterable[tuple[int, Sequence[str], np.ndarray]],
    k: int,
) -> Neighbours:
    """The k words of a table whose vectors have the largest cosine with the signed sum of `vectors [terms, d]`.

    Every vector of the sum is first made 1 long, so that no word counts for more because its vector is longer
    (Mikolov et al. 2013, "Linguistic Regularities in Continuous Space Word Representations"). A vector of zeros has
    cosine 0. Raises InputError where the sum is a vector of zeros.

    >>> table = [(0, ["a", "b", "c"], np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 3.0]]))]
    >>> answer = nearest([1], np.array([[2.0, 0.0]]), [0], table, 2)
    >>> answer.words, answer.cosines.round(4).tolist()
    (('b', 'c'), [0.7071, 0.0])
    """
    target = (np.array(signs)[:, None] * _units(vectors)).sum(axis=0)
    if np.linalg.norm(target) < 1e-9:
        raise InputError("nothing is left of the sum of these vectors", "its words cancel each other out")
    left_out = set(without)
    best: list[tuple[float, int, str]] = []
    for first, words, block in blocks:
        cosines = _units(block) @ (target / np.linalg.norm(target))
        cosines[[row - first for row in left_out if first <= row < first + len(words)]] = -np.inf
        order = np.argsort(-cosines, kind="stable")[:k]
        best += [(-float(cosines[at]), first + int(at), words[at]) for at in order if np.isfinite(cosines[at])]
        best = sorted(best)[:k]
    return Neighbours(
        tuple(word for _, _, word in best),
        tuple(row for _, row, _ in best),
        np.array([-negative for negative, _, _ in best]),
        tuple(signs),
        target,
    )


def _units(vectors: np.ndarray) -> np.ndarray:
    vectors = vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)
