"""The keys that each query attends to most."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.fields import COUNT, NUMBER, SHARE, STREAM, Field, Output, Rows
from attn_cli.kernel.stats.wanted import RowStats, TopK, Wanted
from attn_cli.summaries.call_fields import (
    HEAD_OF_MEAN,
    KEY,
    KEY_TOKEN,
    LAYER,
    LAYERS,
    QUERY,
    QUERY_TOKEN,
    SHARE_BY,
)
from attn_cli.summaries.calls.read_shares import By
from attn_cli.summaries.reduce import Part, Summary

_ROW = (
    STREAM,
    LAYER,
    HEAD_OF_MEAN,
    QUERY,
    QUERY_TOKEN,
    Field("rank", COUNT, "0 for the heaviest"),
    KEY,
    KEY_TOKEN,
    Field(
        "score",
        NUMBER,
        "scaled and masked, before the softmax; null if it is not finite, and between words, which have none",
    ),
    Field("weight", SHARE, "after the softmax"),
    *SHARE_BY.values(),
)
TOP = Field("top", Rows(_ROW, "one key of one query, heaviest first"))
OUTPUT = Output("attn.top/2", "The keys that each query attends to most.", (LAYERS, TOP))


@dataclass(frozen=True, eq=False)
class Top(Part):
    """For r queries their k heaviest keys, heaviest first: keys, weights and scores `[h, r, k]`.

    A place without a key (fewer keys than k, or masked) holds key -1 and weight 0. `scores` is None where scores were
    not collected; then keys of weight 0 are left out too.

    averaged  how many heads the weights are a mean over (then h = 1); 0 for single heads
    by        what ranks the keys: "weight", or "value" or "output", weight times the norm of the value (after W_O)
    shares    `[h, r, k]`, by value or by output each key's part of the row's sum of these, 0 to 1; None by weight
    """

    name: ClassVar[str] = "top"

    rows: tuple[int, ...]
    keys: np.ndarray
    weights: np.ndarray
    scores: np.ndarray | None
    averaged: int = 0
    by: By = "weight"
    shares: np.ndarray | None = None

    @property
    def measured(self) -> np.ndarray:
        """The number that ranks the k keys of r rows `[h, r, k]`, 0 to 1: the weight or the share."""
        return self.weights if self.shares is None else self.shares

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head, query and rank, from 0: both tokens with their indices, score and weight, 0 to 1."""
        # Lists and a literal: NumPy's numbers one by one, or a dict of the fields' names, take longer than writing.
        every = (self.keys, self.weights, self.scores, self.shares)
        keys, weights, scores, shares = (None if x is None else x.tolist() for x in every)
        assert keys is not None
        assert weights is not None
        for at, head in enumerate(summary.head_names(self.averaged)):
            for row, query in enumerate(self.rows):
                query_token = summary.queries[query].text
                for rank, key in enumerate(keys[at][row]):
                    if key < 0:
                        continue
                    share = {} if shares is None else {f"{self.by}_share": shares[at][row][rank]}
                    yield {
                        "layer": summary.place.layer,
                        "head": head,
                        "query": query,
                        "query_token": query_token,
                        "rank": rank,
                        "key": key,
                        "key_token": summary.keys[key].text,
                        "score": None if scores is None else scores[at][row][rank],
                        "weight": weights[at][row][rank],
                    } | share

    def arrays(self) -> dict[str, np.ndarray]:
        """The k heaviest keys of each of r rows, heaviest first: `keys`, -1 for none, and `weights`, `[h, r, k]`."""
        named = {"keys": self.keys, "weights": self.weights, "scores": self.scores, f"{self.by}_share": self.shares}
        return {name: values for name, values in named.items() if values is not None}

    def labels(self) -> dict[str, np.ndarray]:
        """`queries` `[r]`, the indices of the r queries of the arrays' second axis."""
        return {"queries": np.array(self.rows)}


class TopKeys:
    """Makes `Top` of a call: the `count` heaviest keys of rows; by shares the call is a `ReadShares`."""

    reads_tensors: ClassVar[bool] = True

    def __init__(
        self,
        count: int,
        *,
        rows: Sequence[int] | None = None,
        mean_heads: bool = False,
        scores: bool = True,
        by: By = "weight",
    ) -> None:
        self.rows = None if rows is None else tuple(rows)
        self.ranking = TopK(count, mean_heads, by, scores)

    def wanted(self, call: Call) -> Wanted:
        """A request for the `count` largest weights of each picked row."""
        return Wanted(rows=self.rows, tops=(self.ranking,))

    def part(self, call: Call, stats: RowStats) -> Top:
        """The `count` heaviest keys of each picked row, with weights, and where collected scores and shares."""
        weights, scores, keys, shares = (
            None if x is None else to_numpy(stats.of_rows(x, self.rows)) for x in stats.tops[self.ranking]
        )
        assert weights is not None and keys is not None
        if scores is None:  # then an underflow can't be told from a key that is masked
            keys = np.where(weights == 0, -1, keys)
        return Top(
            tuple(range(call.n)) if self.rows is None else self.rows, keys, weights, scores,
            averaged=call.h if self.ranking.mean_heads else 0, by=self.ranking.by,  # type: ignore[arg-type]
            shares=shares,
        )  # fmt: skip
