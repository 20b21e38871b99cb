"""A matrix pooled to the size of a screen while the bands pass: memory grows with the screen, not with n times m."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.kernel.bands.blocks import farthest
from attn_cli.kernel.stats.wanted import Pool, RowStats, Wanted
from attn_cli.summaries.calls.hidden_keys import keys_left
from attn_cli.summaries.calls.read_shares import By
from attn_cli.summaries.reducers.matrix import Matrix


class PooledMatrix:
    """Makes a `Matrix` pooled to at most `rows_at_most` x `keys_at_most` blocks; not pooled if it fits.

    Keys that the user left out get no column. A block shows its maximum, as a mean would erase single spikes of sparse
    attention; of scores it is the number farthest from 0.

    mean_heads  take the mean over heads first, for each query and key
    by          "weight", or each key's share by "value" or "output", for which the call is a `ReadShares`
    """

    reads_tensors: ClassVar[bool] = True

    def __init__(
        self,
        rows_at_most: int,
        keys_at_most: int,
        *,
        rows: Sequence[int] | None = None,
        scores: bool = False,
        mean_heads: bool = False,
        by: By = "weight",
    ) -> None:
        self.rows = None if rows is None else tuple(rows)
        self.limits, self.scores = (rows_at_most, keys_at_most), scores
        self.mean_heads, self.by = mean_heads, by

    def wanted(self, call: Call) -> Wanted:
        """A request for the largest weight (score, share) of each block."""
        pool = self._pool(call)
        return Wanted(pools=(pool, replace(pool, lowest=True)) if self._is_signed(call) else (pool,))

    def _is_signed(self, call: Call) -> bool:
        return (self.scores or not call.rule.softmax) and self._pool(call).covers_many

    def _pool(self, call: Call) -> Pool:
        left = keys_left(call)
        (n, m), (most_rows, most_keys) = self._sizes(call), self.limits
        return Pool(
            -(-n // most_rows), -(-m // most_keys), False, self.rows,
            None if left is None else tuple(left), "scores" if self.scores else "weights",
            self.mean_heads, self.by,
        )  # fmt: skip

    def _sizes(self, call: Call) -> tuple[int, int]:
        left = keys_left(call)
        return call.n if self.rows is None else len(self.rows), call.m if left is None else len(left)

    def part(self, call: Call, stats: RowStats) -> Matrix:
        """The pooled matrix `[h, blocks of rows, blocks of keys]`; h is 1 with `mean_heads`."""
        pool = self._pool(call)
        kept = to_numpy(stats.pooled[pool]).astype(np.float64)
        pooling, ends = "max", None
        if self._is_signed(call):
            lowest = to_numpy(stats.pooled[replace(pool, lowest=True)]).astype(np.float64)
            ends = _ends(kept, lowest)
            kept, pooling = farthest(kept, lowest), "farthest from 0"
        kind = "scores" if self.scores else "weights" if self.by == "weight" else "shares"
        maps: dict[str, Any] = dict.fromkeys(("weights", "scores", "shares")) | {kind: kept}
        return Matrix(
            **maps, rows=pool.picked, keys=pool.columns, averaged=call.h if self.mean_heads else 0,
            block=(pool.rows, pool.keys), pooling=pooling, by=self.by, ends=ends,
        )  # fmt: skip


def _ends(highest: np.ndarray, lowest: np.ndarray) -> tuple[float, float] | None:
    below, above = lowest[np.isfinite(lowest)], highest[np.isfinite(highest)]
    return (float(below.min()), float(above.max())) if below.size and above.size else None
