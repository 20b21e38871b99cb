"""A matrix pooled to the size of a screen while the bands pass: memory grows with the screen, not with n times m."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_cli.arrays import Array, is_torch, to_numpy
from attn_cli.call import Call
from attn_cli.kernel.definition.softmax import renormalised
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.blocks import folded
from attn_cli.kernel.walk.picked_rows import RowPlaces
from attn_cli.kernel.walk.row_numbers import Pool, RowNeeds, RowNumbers
from attn_cli.summaries.calls.hidden_keys import keys_left
from attn_cli.summaries.calls.read_shares import By
from attn_cli.summaries.reducers.matrix import Matrix


class PooledMatrix:
    """Collects a `Matrix` pooled to at most `rows_at_most` x `keys_at_most` blocks; not pooled if it fits.

    Hidden keys get no column.

    The default is the maximum of a block: attention is sparse, and a mean would erase single spikes. With
    `mean_heads` the mean over heads is taken first, cell by cell.

    by       "weight", or what a `ReadShares` call carries: then cells are shares of what a row reads
    rescale  whether cells are divided, before pooling, by what is left of their row without hidden keys
    """

    def __init__(
        self,
        rows_at_most: int,
        keys_at_most: int,
        *,
        rows: Sequence[int] | None = None,
        scores: bool = False,
        mean_heads: bool = False,
        pooling: str = "max",
        by: By = "weight",
        rescale: bool = False,
    ) -> None:
        self.rows, self.rescale = rows, rescale
        self.limits = (rows_at_most, keys_at_most)
        self.needs_scores = scores
        self.mean_heads = self.whole_heads = mean_heads
        self.pooling, self.by = pooling, by

    def start(self, call: Call) -> None:
        """Allocate one number per block."""
        self._measure(call)
        shape = (1 if self.mean_heads else self.heads, -(-self.n // self.block[0]), -(-self.m // self.block[1]))
        signed = self.needs_scores or not call.rule.softmax  # without a softmax weights may be negative
        self.kept = np.full(shape, -np.inf if signed and self.pooling == "max" else 0.0, dtype=np.float64)

    def _measure(self, call: Call) -> None:
        """The rows and keys of the call, and how many of them make a block."""
        left = keys_left(call)
        self.columns = None if left is None else np.array(left, dtype=np.int64)
        self.heads, self.m = call.h, call.m if left is None else len(left)
        self.places = RowPlaces(self.rows, call.n)
        self.n = len(self.places)
        self.block = (-(-self.n // self.limits[0]), -(-self.m // self.limits[1]))

    def add(self, band: Band) -> None:
        """Fold the band's cells into their blocks: rows first, which is quick, then keys of the few rows left."""
        fit = self.places.of(band)
        if fit is None or band.first == band.last:
            return
        cells, first = self._kept_columns(self._cells(band)[:, fit.inside, :], band)
        row, sums = fit.kept.start if isinstance(fit.kept, slice) else fit.kept[0], self.pooling == "mean"
        by_row = to_numpy(folded(cells, -2, row, self.block[0], sums=sums))
        blocks = folded(by_row, -1, first, self.block[1], sums=sums)
        top, left = row // self.block[0], first // self.block[1]
        heads = slice(None) if self.mean_heads else band.heads
        target = self.kept[heads, top : top + blocks.shape[1], left : left + blocks.shape[2]]
        (np.add if sums else np.maximum)(target, blocks, out=target)

    def _cells(self, band: Band) -> Array:
        """The band's cells `[h, b, c]`; on the processor a view in NumPy, whose maxima across rows are the fastest."""
        cells: Array
        if self.needs_scores:
            cells = band.scores.mean(0)[None] if self.mean_heads else band.scores  # type: ignore[union-attr]
        else:
            cells = band.measured(self.by, together=self.mean_heads)
        if self.rescale:
            cells = to_numpy(cells)
            return renormalised(cells, cells.sum(axis=-1, keepdims=True))
        return cells if is_torch(cells) and cells.device.type != "cpu" else to_numpy(cells)

    def row_needs(self, call: Call) -> RowNeeds | None:
        """Its blocks of weights."""
        if self.needs_scores or self.rescale or self.by != "weight":
            return None
        self._measure(call)
        rows = None if self.rows is None else tuple(self.rows)
        return RowNeeds(pool=Pool(*self.block, sums=self.pooling == "mean"), rows=rows, means=self.mean_heads)

    def take(self, rows: RowNumbers) -> None:
        """The blocks."""
        self.kept = np.asarray(rows.pooled, dtype=np.float64)

    def result(self) -> Matrix:
        """The pooled matrix; means are divided by the true size of edge blocks."""
        kept = self.kept if self.needs_scores else np.where(np.isneginf(self.kept), 0.0, self.kept)
        if self.pooling == "mean":
            height, width = (_block_sizes(size, step) for size, step in zip((self.n, self.m), self.block, strict=True))
            kept = kept / (height[:, None] * width[None, :])
        averaged = self.heads if self.mean_heads else 0
        kind = "scores" if self.needs_scores else "weights" if self.by == "weight" else "shares"
        kind = "rescaled_share" if self.rescale else kind
        maps: dict[str, Any] = dict.fromkeys(("weights", "scores", "shares", "rescaled_share")) | {kind: kept}
        rows, keys = (None if x is None else tuple(int(at) for at in x) for x in (self.rows, self.columns))
        return Matrix(
            **maps, rows=rows, keys=keys, averaged=averaged, block=self.block, pooling=self.pooling, by=self.by
        )

    def _kept_columns(self, cells: Array, band: Band) -> tuple[Array, int]:
        """The band's cells `[h, b, c]` of the keys that are kept, and the first of their columns."""
        if self.columns is None:
            return cells, band.first
        first, last = np.searchsorted(self.columns, (band.first, band.last))
        return cells[:, :, (self.columns[first:last] - band.first).tolist()], int(first)


def _block_sizes(size: int, step: int) -> np.ndarray:
    """How many rows (or keys) each block holds: `step`, and what is left in the last."""
    starts = np.arange(0, size, step)
    return np.minimum(starts + step, size) - starts
