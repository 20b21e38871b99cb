"""The keys that each query attends to most."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from attn_cli.arrays import Array, integers, is_torch, namespace, to_numpy, zeros
from attn_cli.call import Call
from attn_cli.kernel.bands import Band, with_infinities
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
        self.whole_heads = mean_heads

    def start(self, call: Call) -> None:
        """Allocate `[h, r, k]` three times, where the weights are."""
        self.heads = call.h
        self.places = RowPlaces(self.rows, call.n)
        shape = (1 if self.mean_heads else call.h, len(self.places), min(self.count, call.m))
        self.weights = zeros(shape, call.like)
        self.scores = zeros(shape, call.like) - float("inf")
        self.keys = integers(shape, -1, call.like)

    def add(self, band: Band) -> None:
        """Rank the asked rows of the band."""
        fit = self.places.of(band)
        if fit is None or band.first == band.last:
            return
        weights, scores = band.weights[:, fit.inside, :], band.raw_scores[:, fit.inside, :]  # type: ignore[index]
        if self.mean_heads:
            weights, scores = weights.mean(0)[None], with_infinities(scores).mean(0)[None]
        xp = namespace(weights)
        picked = heaviest(weights, min(self.count, band.last - band.first))
        k = picked.shape[-1]
        heads = slice(None) if self.mean_heads else band.heads
        self.weights[heads, fit.kept, :k] = xp.take_along_axis(weights, picked, axis=-1)
        self.scores[heads, fit.kept, :k] = xp.take_along_axis(scores, picked, axis=-1)
        self.keys[heads, fit.kept, :k] = picked + band.first

    def result(self) -> Top:
        """The ranked keys."""
        rows = tuple(self.places.numbers)
        keys, weights, scores = (to_numpy(x) for x in (self.keys, self.weights, with_infinities(self.scores)))
        # A mean over heads has a weight where one of them is not blocked, though its mean score is -inf.
        keys[np.isinf(scores) & (weights == 0)] = -1
        return Top(rows, keys, weights, scores, averaged=self.heads if self.mean_heads else 0)


def heaviest(weights: Array, count: int) -> Array:
    """The positions `[..., count]` of the largest entries of the last axis, largest first, equal ones by position.

    In rows beyond `_SHORT`, where more equal weights compete for the last places than there is room for, any of them
    may get one.

    >>> heaviest(np.array([0.2, 0.5, 0.1, 0.2]), 3).tolist()
    [1, 0, 3]
    """
    c = weights.shape[-1]
    if c <= _SHORT:
        if is_torch(weights):
            return weights.argsort(dim=-1, descending=True, stable=True)[..., :count]
        return np.argsort(-weights, axis=-1, kind="stable")[..., :count]
    if not is_torch(weights):
        picked = np.sort(np.argpartition(-weights, count - 1, axis=-1)[..., :count], axis=-1)
        order = np.argsort(-np.take_along_axis(weights, picked, axis=-1), axis=-1, kind="stable")
        return np.take_along_axis(picked, order, axis=-1)
    values, picked = _largest(weights, count)
    if count == 1 or not bool((values[..., 1:] == values[..., :-1]).any()):
        return picked
    picked = picked.sort(-1).values
    return picked.gather(-1, weights.gather(-1, picked).argsort(dim=-1, descending=True, stable=True))


_SHORT = 64
# Where torch's own topk is fast: it goes through a row once, a heap in hand, if the row holds 64 times the count.
_QUICK = range(64, 1024 + 1)
_GROUP = 4


def _largest(weights: Array, count: int) -> tuple[Array, Array]:
    """Values and positions of the largest entries of the last axis, largest first; faster than topk on long rows.

    The largest entries lie in the groups with the largest maxima, as many groups as entries. A group is every
    `strides`-th entry, not neighbours: maxima then run down columns, which processors do many at a time.
    """
    c = weights.shape[-1]
    if c <= 8 * count or (c in _QUICK and c >= 64 * count):
        return cast(tuple[Array, Array], weights.topk(min(count, c), dim=-1))
    strides = c // _GROUP
    grouped = strides * _GROUP
    maxima = weights[..., :grouped].unflatten(-1, (_GROUP, strides)).amax(-2)
    xp = namespace(weights)
    steps = xp.arange(_GROUP, device=weights.device) * strides
    members = (_largest(maxima, count)[1][..., None] + steps).flatten(-2)
    if grouped < c:
        rest = xp.arange(grouped, c, device=weights.device).expand(*members.shape[:-1], -1)
        members = xp.cat((members, rest), dim=-1)
    values, best = weights.gather(-1, members).topk(count, dim=-1)
    return values, members.gather(-1, best)
