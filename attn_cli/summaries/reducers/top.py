"""The keys that each query attends to most."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import integers, namespace, take_along_last_axis, to_numpy, zeros
from attn_cli.call import Call
from attn_cli.kernel.definition.softmax import renormalised
from attn_cli.kernel.stats.topk import heaviest
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.masked_cells import with_infinities
from attn_cli.kernel.walk.picked_rows import RowPlaces
from attn_cli.kernel.walk.row_numbers import RowNeeds, RowNumbers
from attn_cli.summaries.calls.read_shares import By
from attn_cli.summaries.reduce import Part, Summary


@dataclass(frozen=True, eq=False)
class Top(Part):
    """For r queries their k heaviest keys, heaviest first: keys, weights and scores `[h, r, k]`.

    A place without a key (fewer keys than k, or masked) holds key -1 and weight 0. `scores` is None where scores were
    not collected; then keys of weight 0 are left out too.

    rows      the queries
    averaged  the weights are a mean over this many heads (then h = 1); 0 if not averaged
    by        what ranks the keys
    shares    `[h, r, k]`, by value or by output the share of what the row reads; None by weight
    rest      the sum over each row `[h, r]` of what ranks its keys, without hidden ones; None unless rescaled by it
    """

    name: ClassVar[str] = "top"

    rows: tuple[int, ...]
    keys: np.ndarray
    weights: np.ndarray
    scores: np.ndarray | None
    averaged: int = 0
    by: By = "weight"
    shares: np.ndarray | None = None
    rest: np.ndarray | None = None

    @property
    def measured(self) -> np.ndarray:
        """What ranks the keys `[h, r, k]`."""
        return self.weights if self.shares is None else self.shares

    @property
    def rescaled_shares(self) -> np.ndarray | None:
        """What ranks the keys over what is left of it in the row `[h, r, k]`; None unless it is rescaled."""
        return None if self.rest is None else renormalised(self.measured, self.rest[..., None])

    @property
    def shown(self) -> np.ndarray:
        """What screens show `[h, r, k]`: what ranks the keys, rescaled where that was asked for."""
        return self.measured if self.rest is None else renormalised(self.measured, self.rest[..., None])

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per (head, query, rank)."""
        # lists, because a NumPy number at a time takes longer than all the rest of a short text
        every = (self.keys, self.weights, self.scores, self.shares, self.rescaled_shares)
        keys, weights, scores, shares, rescaled_shares = (None if x is None else x.tolist() for x in every)
        assert keys is not None
        assert weights is not None
        for at, head in enumerate(summary.head_names(self.averaged)):
            for row, query in enumerate(self.rows):
                query_token = summary.queries[query].text
                for rank, key in enumerate(keys[at][row]):
                    if key < 0:
                        continue
                    share = {} if shares is None else {f"{self.by}_share": shares[at][row][rank]}
                    yield (
                        {
                            "layer": summary.place.layer,
                            "head": head,
                            "query": query,
                            "query_token": query_token,
                            "rank": rank,
                            "key": key,
                            "key_token": summary.keys[key].text,
                            "score": None if scores is None else scores[at][row][rank],
                            "weight": weights[at][row][rank],
                        }
                        | share
                        | ({} if rescaled_shares is None else {"rescaled_share": rescaled_shares[at][row][rank]})
                    )

    def arrays(self) -> dict[str, np.ndarray]:
        """`keys`, `weights`, `scores`, `value_share` or `output_share`, `rescaled_share` `[h, r, k]`, if collected."""
        named = {"keys": self.keys, "weights": self.weights, "scores": self.scores, f"{self.by}_share": self.shares,
                 "rescaled_share": self.rescaled_shares}  # fmt: skip
        return {name: values for name, values in named.items() if values is not None}

    def labels(self) -> dict[str, np.ndarray]:
        """The numbers of the `queries`."""
        return {"queries": np.array(self.rows)}


class TopKeys:
    """Collects `Top`: the `count` heaviest keys of all queries or of `rows`; equal weights rank by key number.

    by       "weight", or what a `ReadShares` call carries: then keys rank by their shares in what is read
    rescale  whether what is left of every row without hidden keys is noted, to show shares of it
    """

    def __init__(
        self,
        count: int,
        *,
        rows: Sequence[int] | None = None,
        mean_heads: bool = False,
        scores: bool = True,
        by: By = "weight",
        rescale: bool = False,
    ) -> None:
        self.rescale = rescale
        self.count, self.rows, self.mean_heads, self.wants_scores = count, rows, mean_heads, scores
        self.needs_scores = scores
        self.whole_heads, self.by = mean_heads, by

    def start(self, call: Call) -> None:
        """Allocate `[h, r, k]` three times, where the weights are."""
        self.heads, self.places = call.h, RowPlaces(self.rows, call.n)
        self.needs_scores = self.wants_scores and call.shows_scores
        shape = (1 if self.mean_heads else call.h, len(self.places), min(self.count, call.m))
        self.weights = zeros(shape, call.like)
        self.scores = zeros(shape, call.like) if self.needs_scores else None
        if self.scores is not None:
            self.scores[...] = -float("inf")
        self.keys = integers(shape, -1, call.like)
        self.shares = None if self.by == "weight" else zeros(shape, call.like)
        self.rest = zeros(shape[:2], call.like) if self.rescale else None

    def add(self, band: Band) -> None:
        """Rank the keys of the band's picked rows."""
        fit = self.places.of(band)
        if fit is None or band.first == band.last:
            return
        weights = band.weights[:, fit.inside, :]
        if self.mean_heads:
            weights = weights.mean(0)[None]
        measured = weights
        if self.shares is not None:
            measured = band.measured(self.by, together=self.mean_heads)[:, fit.inside, :]
        values, picked = heaviest(measured, min(self.count, band.last - band.first))
        k = picked.shape[-1]
        heads = slice(None) if self.mean_heads else band.heads
        if self.rest is not None:
            self.rest[heads, fit.kept] = namespace(measured).sum(measured, axis=-1)
        if self.shares is not None:
            self.shares[heads, fit.kept, :k] = values
            values = take_along_last_axis(weights, picked)
        self.weights[heads, fit.kept, :k] = values
        self.keys[heads, fit.kept, :k] = picked + band.first
        if self.scores is not None:
            scores = band.raw_scores[:, fit.inside, :]  # type: ignore[index]
            if self.mean_heads:
                scores = with_infinities(scores).mean(0)[None]
            self.scores[heads, fit.kept, :k] = take_along_last_axis(scores, picked)

    def row_needs(self, call: Call) -> RowNeeds | None:
        """So many of the largest weights of every row, or of those that are picked."""
        self.heads, self.places = call.h, RowPlaces(self.rows, call.n)
        if self.by != "weight" or (self.mean_heads and self.rescale):
            return None
        rows = None if self.rows is None else tuple(self.rows)
        return RowNeeds(top=min(self.count, call.m), moments=self.rescale, rows=rows, means=self.mean_heads)

    def take(self, rows: RowNumbers) -> None:
        """The ranked keys, of which others may have asked for more."""
        self.weights, self.keys, scores = (
            rows.of_rows(name, self.rows)[..., : self.count] for name in ("top_weights", "top_keys", "top_scores")
        )
        self.scores = scores if self.wants_scores else None
        self.shares, self.rest = None, rows.of_rows("mass", self.rows) if self.rescale else None

    def result(self) -> Top:
        """The ranked keys."""
        rows = tuple(self.places.numbers)
        keys, weights = to_numpy(self.keys), to_numpy(self.weights)
        scores = None if self.scores is None else to_numpy(with_infinities(self.scores))
        # A mean over heads has a weight where one of them is not masked, though its mean score is -inf.
        keys[(weights == 0) & (True if scores is None else np.isinf(scores))] = -1
        shares = None if self.shares is None else to_numpy(self.shares)
        rest = None if self.rest is None else to_numpy(self.rest)
        averaged = self.heads if self.mean_heads else 0
        return Top(rows, keys, weights, scores, averaged=averaged, by=self.by, shares=shares, rest=rest)
