"""The keys that each query attends to most."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import Array, is_torch, namespace, to_numpy
from attn_cli.call import Call
from attn_cli.kernel.bands import Band
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.rows import RowPlaces


@dataclass(frozen=True, eq=False)
class Top:
    """For r queries their k heaviest keys, heaviest first: keys, weights and scores `[h, r, k]`.

    A place that has no key to name (fewer keys than k, or blocked) holds key -1 and weight 0.
    """

    name: ClassVar[str] = "top"

    rows: tuple[int, ...]
    keys: np.ndarray
    weights: np.ndarray
    scores: np.ndarray
    averaged: int = 0

    def head_names(self, summary: Summary) -> list[int | str]:
        """The true head number of every first axis entry, or "mean"."""
        return ["mean"] if self.averaged else list(summary.place.heads)

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per (head, query, rank)."""
        for at, head in enumerate(self.head_names(summary)):
            for row, query in enumerate(self.rows):
                for rank, key in enumerate(self.keys[at, row].tolist()):
                    if key < 0:
                        continue
                    yield {
                        "layer": summary.place.layer,
                        "head": head,
                        "query": query,
                        "query_token": summary.queries[query].text,
                        "rank": rank,
                        "key": key,
                        "key_token": summary.keys[key].text,
                        "score": float(self.scores[at, row, rank]),
                        "weight": float(self.weights[at, row, rank]),
                    }

    def documents(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """The same rows."""
        return self.records(summary)

    def arrays(self) -> dict[str, np.ndarray]:
        """`keys`, `weights`, `scores` `[h, r, k]`."""
        return {"keys": self.keys, "weights": self.weights, "scores": self.scores}


class TopKeys:
    """The `count` heaviest keys of every query, or of the asked `rows`; equal weights rank by key number."""

    needs_scores = True

    def __init__(self, count: int, *, rows: Sequence[int] | None = None, mean_heads: bool = False) -> None:
        self.count, self.rows, self.mean_heads = count, rows, mean_heads

    def start(self, call: Call) -> None:
        """Allocate `[h, r, k]` three times."""
        self.heads = call.h
        self.places = RowPlaces(self.rows, call.n)
        shape = (1 if self.mean_heads else self.heads, len(self.places), min(self.count, call.m))
        self.keys = np.full(shape, -1, dtype=np.int64)
        self.weights = np.zeros(shape)
        self.scores = np.full(shape, -np.inf)

    def add(self, band: Band) -> None:
        """Rank the asked rows of the band."""
        fit = self.places.of(band)
        if fit is None or band.first == band.last:
            return
        weights, scores = band.weights[:, fit.inside, :], band.scores[:, fit.inside, :]  # type: ignore[index]
        if self.mean_heads:
            weights, scores = weights.mean(0)[None], scores.mean(0)[None]
        picked = heaviest(weights, min(self.count, band.last - band.first))
        k = picked.shape[-1]
        xp = namespace(weights)
        top_weights = to_numpy(xp.take_along_axis(weights, picked, axis=-1))
        self.weights[:, fit.kept, :k] = top_weights
        self.scores[:, fit.kept, :k] = to_numpy(xp.take_along_axis(scores, picked, axis=-1))
        self.keys[:, fit.kept, :k] = np.where(
            np.isneginf(self.scores[:, fit.kept, :k]), -1, to_numpy(picked) + band.first
        )

    def result(self) -> Top:
        """The ranked keys."""
        rows = tuple(self.places.numbers)
        return Top(rows, self.keys, self.weights, self.scores, averaged=self.heads if self.mean_heads else 0)


def heaviest(weights: Array, count: int) -> Array:
    """The positions `[..., count]` of the largest entries of the last axis, largest first, ties by position.

    >>> heaviest(np.array([0.2, 0.5, 0.1, 0.2]), 3).tolist()
    [1, 0, 3]
    """
    c = weights.shape[-1]
    if c <= 256 or count * 8 > c:
        xp = namespace(weights)
        order = (
            xp.argsort(weights, axis=-1, descending=True, stable=True)
            if is_torch(weights)
            else np.argsort(-weights, axis=-1, kind="stable")
        )
        return order[..., :count]
    if is_torch(weights):
        values, places = weights.topk(count, dim=-1)
        places, order = places.sort(-1)  # so that the stable sort below breaks ties by position
        return places.gather(-1, values.gather(-1, order).argsort(dim=-1, descending=True, stable=True))
    places = np.sort(np.argpartition(-weights, count - 1, axis=-1)[..., :count], axis=-1)
    values = np.take_along_axis(weights, places, axis=-1)
    return np.take_along_axis(places, np.argsort(-values, axis=-1, kind="stable"), axis=-1)
