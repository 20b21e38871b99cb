"""attn nearest: the words nearest to a sum of words, by the angle between their vectors."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from attn_cli.errors import InputError
from attn_cli.prompt import Token
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.text import quoted

SHAPE = Shape(
    "attn.nearest/3",
    "The nearest words of a table of word vectors.",
    {"nearest": ("rank", "word", "id", "cosine"), "pairs": ("word", "other_word", "cosine")},
    screen={"pairs": ("word", "other_word", "cosine"), "nearest": ("word", "cosine")},
    bars=("cosine",),
)
_ON_AXES = 8  # words


def nearest(
    words: Sequence[Token],
    signs: Sequence[int],
    vectors: np.ndarray,
    blocks: Iterable[tuple[int, Sequence[str], np.ndarray]],
    k: int,
) -> Answer:
    """The k words of a table whose vectors have the largest cosine with the signed sum of `vectors [terms, d]`.

    Every vector of the sum is first made 1 long (Mikolov et al. 2013). InputError where the sum is a vector of zeros.
    Words without a sign (0) are added, and also held against each other.
    """
    units = _units(vectors)
    target = (np.where(signs, signs, 1)[:, None] * units).sum(axis=0)
    if np.linalg.norm(target) < 1e-9:
        raise InputError("nothing is left of the sum of these vectors", "its words cancel each other out")
    left_out = {token.id for token in words if token.id is not None}
    best: list[tuple[float, int, str]] = []
    for first, entries, block in blocks:
        cosines = _units(block) @ (target / np.linalg.norm(target))
        cosines[[row - first for row in left_out if first <= row < first + len(entries)]] = -np.inf
        order = np.argsort(-cosines, kind="stable")[:k]
        best += [(-float(cosines[at]), first + int(at), entries[at]) for at in order if np.isfinite(cosines[at])]
        best = sorted(best)[:k]
    rows = [{"rank": rank, "word": word, "id": row, "cosine": -x} for rank, (x, row, word) in enumerate(best)]
    found = [word for _, _, word in best]
    findings = [f"{quoted(found[0])} is nearest: cosine {-best[0][0]:.2f}" if best else "no other word is in the table"]
    pairs: list[dict[str, Any]] = [
        {"word": words[at].text, "other_word": words[to].text, "cosine": float(units[at] @ units[to])}
        for at, to in combinations(range(len(words) if 0 in signs else 0), 2)
    ]
    findings[:0] = [f"{quoted(x['word'])} and {quoted(x['other_word'])}: cosine {x['cosine']:.2f}" for x in pairs[:1]]
    near = [word for word in found if word.isalpha()][:_ON_AXES]
    onwards = Next("plane", (" ".join(near),)) if len(near) > 1 else Next("nearest", tuple(found[:1])) if best else None
    tables = {"nearest": Table.of(rows), "pairs": Table.of(pairs)}
    return Answer(SHAPE, tuple(findings), tables, {"target": target}, next=onwards)


def _units(vectors: np.ndarray) -> np.ndarray:
    vectors = vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)
