"""Matrices, whole or pooled to the size of a screen while the bands pass."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.display import Displayed
from attn_cli.kernel.bands.blocks import farthest
from attn_cli.kernel.stats.wanted import Pool, RowStats, Wanted
from attn_cli.summaries.calls.read_shares import By
from attn_cli.summaries.reduce import Part, Summary

if TYPE_CHECKING:
    from attn_cli.summaries.standing_out import StandOut


@dataclass(frozen=True, eq=False)
class Matrix(Part, Displayed):
    """Weights, scores and shares `[h, n, m]` of some rows, those that were asked for; scores are -inf where masked."""

    name: ClassVar[str] = "matrices"

    weights: np.ndarray | None
    scores: np.ndarray | None
    rows: tuple[int, ...] | None = None  # the query behind every row; None means all
    averaged: int = 0  # how many heads it is a mean over (then h = 1); 0 for single heads
    block: tuple[int, int] = (1, 1)  # (rows, keys) that one number stands for
    pooling: str = "max"
    by: By = "weight"
    shares: np.ndarray | None = None  # each key's part of the row's sum of weight times norm; None by weight
    keys: tuple[int, ...] | None = None  # the key behind every column; None means all
    heads: tuple[int, ...] | None = None  # None means all of the call
    chosen: "StandOut | None" = None  # None where the user chose
    ends: tuple[float, float] | None = None  # of all numbers that were pooled to those farthest from 0

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
        row |= {"reason": self.chosen.sentence} if self.chosen else {}
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


class MatrixOf:
    """Makes a `Matrix` of a call, pooled to at most `most` (rows, keys), None for no limit; not pooled if it fits.

    A block shows its maximum, as a mean would erase single spikes of sparse attention; of numbers that may be negative
    it is the one farthest from 0. Shares are asked of a `ReadShares`. Keys that the user left out get no column.
    """

    def __init__(
        self,
        most: tuple[int | None, int | None] = (None, None),
        rows: Sequence[int] | None = None,
        *,
        kinds: Sequence[str] = ("weights",),
        keys: Sequence[int] | None = None,
        mean_heads: bool = False,
        by: By = "weight",
    ) -> None:
        self.most, self.kinds, self.mean_heads, self.by = most, kinds, mean_heads, by
        self.rows, self.keys = (None if x is None else tuple(x) for x in (rows, keys))

    def wanted(self, call: Call) -> Wanted:
        """A request for the largest number of each block, and where it can be negative the smallest."""
        pools = self._pools(call)
        return Wanted(pools=(*pools, *(replace(pool, lowest=True) for pool in pools if _is_signed(pool, call))))

    def _pools(self, call: Call) -> list[Pool]:
        hidden, columns = set(call.hidden), self.keys
        if hidden and self.most[1] is not None:
            columns = tuple(key for key in range(call.m) if key not in hidden)
        n, m = (size if of is None else len(of) for size, of in ((call.n, self.rows), (call.m, columns)))
        rows, keys = (1 if most is None else -(-size // most) for size, most in zip((n, m), self.most, strict=True))
        return [
            Pool(
                max(rows, 1),
                max(keys, 1),
                picked=self.rows,
                columns=columns,
                of="scores" if kind == "scores" else "weights",
                mean_heads=self.mean_heads,
                by=self.by if kind == "shares" else "weight",
            )
            for kind in self.kinds
        ]

    def part(self, call: Call, stats: RowStats) -> Matrix:
        """The matrices `[h, blocks of rows, blocks of keys]`; h is 1 with `mean_heads`."""
        maps: dict[str, Any] = dict.fromkeys(("weights", "scores", "shares"))
        ends = None
        pools = self._pools(call)
        for kind, pool in zip(self.kinds, pools, strict=True):
            maps[kind] = to_numpy(stats.pooled[pool])
            if _is_signed(pool, call):
                lowest = to_numpy(stats.pooled[replace(pool, lowest=True)])
                ends = _ends(maps[kind], lowest)
                maps[kind] = farthest(maps[kind], lowest)
        pool, averaged = pools[0], call.h if self.mean_heads else 0
        return Matrix(
            **maps,
            rows=self.rows,
            keys=pool.columns,
            averaged=averaged,
            block=(pool.rows, pool.keys),
            pooling="farthest from 0" if _is_signed(pool, call) else "max",
            by=self.by,
            ends=ends,
        )


def _is_signed(pool: Pool, call: Call) -> bool:
    return (pool.of == "scores" or not call.rule.softmax) and pool.rows * pool.keys > 1


def _ends(highest: np.ndarray, lowest: np.ndarray) -> tuple[float, float] | None:
    below, above = lowest[np.isfinite(lowest)], highest[np.isfinite(highest)]
    return (float(below.min()), float(above.max())) if below.size and above.size else None
