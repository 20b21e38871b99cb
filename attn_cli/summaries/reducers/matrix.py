"""Whole matrices: the one reducer whose memory grows with n times m."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attn_cli.arrays import itemsize, namespace, to_numpy
from attn_cli.call import Call
from attn_cli.display import Displayed
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.blocks import farthest, folded
from attn_cli.kernel.bands.picked_rows import RowIndex, RowPlaces
from attn_cli.summaries.calls.read_shares import By
from attn_cli.summaries.reduce import Part, Summary

if TYPE_CHECKING:
    from attn_cli.summaries.standing_out import StandOut


@dataclass(frozen=True, eq=False)
class Matrix(Part, Displayed):
    """Weights, scores and shares `[h, n, m]` of some rows, those that were asked for; scores are -inf where masked.

    rows     the query behind every matrix row; None means all
    averaged how many heads the weights are a mean over (then h = 1); 0 for single heads
    block    (rows, keys) of weights that one number stands for; (1, 1) if nothing was pooled
    pooling  how numbers of a block were put together: "max" or, of signed numbers, "farthest from 0"
    ends     the smallest and the largest of all numbers that were pooled to those farthest from 0; else None
    by       what the shares are of: "value", "output" (after W_O), or "weight" for no shares
    shares   each key's part of the row's sum of weight times norm, 0 to 1; None by weight
    keys     the key behind every column; None means all
    heads    the heads that it is of; None means all of the call
    chosen   the one head that it is of, and why; None where the user chose
    """

    name: ClassVar[str] = "matrices"

    weights: np.ndarray | None
    scores: np.ndarray | None
    rows: tuple[int, ...] | None = None
    averaged: int = 0
    block: tuple[int, int] = (1, 1)
    pooling: str = "max"
    by: By = "weight"
    shares: np.ndarray | None = None
    keys: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    chosen: "StandOut | None" = None
    ends: tuple[float, float] | None = None

    def __repr__(self) -> str:
        maps = ", ".join(f"{name} {values.shape}" for name, values in self.maps)
        return f"Matrix of {maps}" + ("" if self.block == (1, 1) else f", {self.pooling} over {self.block}")

    def head_names(self, summary: Summary) -> list[int | str]:
        """What each matrix of the first axis is of: heads, by their numbers in the model, or "mean"."""
        return summary.head_names(self.averaged) if self.heads is None else list(self.heads)

    @property
    def maps(self) -> list[tuple[str, np.ndarray]]:
        """The matrices to draw, each `[h, n, m]` with its name: scores, weights, or "by value" and the like."""
        named = (("scores", self.scores), ("weights", self.weights), (f"by {self.by}", self.shares))
        return [(name, values) for name, values in named if values is not None]

    def row_numbers(self, summary: Summary) -> Sequence[int]:
        """The query index of every row of the matrix."""
        return range(len(summary.queries)) if self.rows is None else self.rows

    def listed_keys(self, summary: Summary) -> list[tuple[int, int]]:
        """(column, index of its key) for every column whose key the user didn't leave out."""
        hidden = set(summary.hidden)
        keys = range(len(summary.keys)) if self.keys is None else self.keys
        return [(column, key) for column, key in enumerate(keys) if key not in hidden]

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head, query and key that isn't hidden: layer, head, both with their tokens, score and weight."""
        place, keys = summary.place, self.listed_keys(summary)
        for at, head in enumerate(self.head_names(summary)):
            for row, query in enumerate(self.row_numbers(summary)):
                for column, key in keys:
                    shares = self.shares
                    share = {} if shares is None else {f"{self.by}_share": float(shares[at, row, column])}
                    yield {
                        "layer": place.layer,
                        "head": head,
                        "query": query,
                        "query_token": summary.queries[query].text,
                        "key": key,
                        "key_token": summary.keys[key].text,
                        "score": None if self.scores is None else float(self.scores[at, row, column]),
                        "weight": None if self.weights is None else float(self.weights[at, row, column]),
                    } | share

    def tables(self, summary: Summary) -> dict[str, Iterable[dict[str, Any]]]:
        """`cells`, a row per head, query and key, and `matrices`, one of all heads' as [head][query][key]."""
        return {"cells": self.records(summary), "matrices": self._documents(summary)}

    def _documents(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """A row with all matrices of the call, and what their axes are; masked scores are null and counted."""
        arrays, place, pooled = self.arrays(), summary.place, self.block != (1, 1)
        row: dict[str, Any] = {"layer": place.layer, "stream": place.stream, "call": place.call}
        row |= {"heads": self.head_names(summary), "queries": [*self.row_numbers(summary)], "block": [*self.block]}
        row["pooling"] = self.pooling if pooled else None
        row |= {"reason": self.chosen.reason} if self.chosen else {}
        if self.keys is not None:
            row["keys"] = [*self.keys]
        elif summary.hidden:
            row["hidden_keys"] = [*summary.hidden]
        row |= {} if self.scores is None else {"masked_cells": int(np.isneginf(self.scores).sum())}
        nonfinite = sum(int((~np.isfinite(x) & ~np.isneginf(x)).sum()) for x in arrays.values())
        yield row | {"nonfinite_cells": nonfinite} | arrays

    def arrays(self) -> dict[str, np.ndarray]:
        """`weights`, `scores`, `value_share`, `output_share`, `[h, rows, keys]`, if collected."""
        named = {"weights": self.weights, "scores": self.scores, f"{self.by}_share": self.shares}
        return {name: values for name, values in named.items() if values is not None}

    def labels(self) -> dict[str, np.ndarray]:
        """The token indices `queries` `[r]` of picked rows, and `keys` `[c]` of picked keys; left out where all are."""
        picked = {"queries": self.rows, "keys": self.keys, "block": None if self.block == (1, 1) else self.block}
        return {name: np.array(numbers) for name, numbers in picked.items() if numbers is not None}


class FullMatrix:
    """Makes a `Matrix` of a call's weights or scores for all queries or `rows`; `mean_heads` averages over heads.

    The mean score of a query and key that are masked in any head is -inf.

    by       "value" or "output": also shares, for which the call is a `ReadShares`; "weight" for no shares
    """

    def __init__(
        self,
        *,
        weights: bool = True,
        scores: bool = False,
        rows: Sequence[int] | None = None,
        keys: Sequence[int] | None = None,
        most: int | None = None,
        mean_heads: bool = False,
        by: By = "weight",
    ) -> None:
        self.keys, self.most = keys, most
        self.weights, self.needs_scores, self.by = weights, scores, by
        self.rows = rows
        self.mean_heads = self.whole_heads = mean_heads

    def start(self, call: Call) -> None:
        """Allocate memory for what is collected of `call`, `[h, rows, keys]` each: weights, scores, shares."""
        heads = 1 if self.mean_heads else call.h
        self.places = RowPlaces(self.rows, call.n)
        self.heads = call.h
        self.columns = RowPlaces(self.keys, call.m)
        shape = (heads, len(self.places), len(self.columns))
        dtype = np.float64 if itemsize(call.like) == 8 else np.float32
        self.kept_weights: np.ndarray | None = np.zeros(shape, dtype=dtype) if self.weights else None
        self.kept_scores: np.ndarray | None = np.full(shape, -np.inf, dtype=dtype) if self.needs_scores else None
        self.kept_shares: np.ndarray | None = None if self.by == "weight" else np.zeros(shape, dtype=dtype)

    def add(self, band: Band) -> None:
        """Copy weights, scores and shares of the picked rows and keys of a band (some adjacent query rows)."""
        fit, columns = self.places.of(band), self.columns.fit(band.first, band.last)
        if fit is None or columns is None:
            return
        for kept, values in ((self.kept_weights, band.weights), (self.kept_scores, band.scores)):
            if kept is not None:
                part = values[:, fit.inside, :][..., columns.inside]  # type: ignore[index]
                if self.mean_heads:
                    part = namespace(part).mean(part, axis=0, keepdims=True)
                heads = slice(None) if self.mean_heads else band.heads
                _put(kept, heads, fit.kept, columns.kept, to_numpy(part))
        if self.kept_shares is not None:
            shares = band.measured(self.by, together=self.mean_heads)[:, fit.inside, :][..., columns.inside]
            heads = slice(None) if self.mean_heads else band.heads
            _put(self.kept_shares, heads, fit.kept, columns.kept, to_numpy(shares))

    def result(self) -> Matrix:
        """The matrix of all picked rows, its arrays in NumPy."""
        rows = None if self.rows is None else tuple(self.rows)
        averaged = self.heads if self.mean_heads else 0
        weights, scores, shares = self.kept_weights, self.kept_scores, self.kept_shares
        step = 1 if self.most is None else -(-len(self.places) // self.most)
        weights, shares = (None if x is None else folded(x, -2, 0, step) for x in (weights, shares))
        if scores is not None and step > 1:
            highest, lowest = (folded(x, -2, 0, step) for x in (scores, np.where(np.isneginf(scores), scores, -scores)))
            scores = farthest(highest, -lowest)
        keys = None if self.keys is None else tuple(self.keys)
        return Matrix(weights, scores, rows, averaged=averaged, block=(max(step, 1), 1), by=self.by, shares=shares,
                      keys=keys)  # fmt: skip


def _put(kept: np.ndarray, heads: slice, rows: RowIndex, keys: RowIndex, values: np.ndarray) -> None:
    if isinstance(rows, list) and isinstance(keys, list):
        kept[heads, np.array(rows)[:, None], np.array(keys)] = values
    else:
        kept[heads, rows, keys] = values
