"""Statistics that many rows make together, gathered band by band: column sums and pooled blocks."""

import numpy as np

from attn_cli.arrays import Array, is_torch, to_numpy, zeros
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.blocks import folded
from attn_cli.kernel.bands.picked_rows import RowPlaces
from attn_cli.kernel.stats.banded import Banded
from attn_cli.kernel.stats.wanted import ColumnSums, Pool, block_sizes


class SummedColumns:
    """For each key the sum over rows of the weights on it, or of its shares of the rows' outputs as `wanted.by` says.

    Gathered band by band, a band being some adjacent rows. A share is weight times the norm of the value, over the sum
    of these in the row.
    """

    def __init__(self, call: Banded, wanted: ColumnSums) -> None:
        self.wanted, self.places = wanted, RowPlaces(wanted.rows, call.n)
        self.sums = zeros((1 if wanted.joint else call.h, call.m), call.like)

    def add(self, band: Band) -> None:
        """Add the weights of a band (some adjacent rows), of its wanted rows alone, to the sum of each key."""
        fit = self.places.of(band)
        if fit is None:
            return
        cells = band.measured(self.wanted.by, together=self.wanted.joint)[:, fit.inside]  # [h, b, c]
        ones = zeros((cells.shape[0], 1, cells.shape[1]), cells) + 1
        heads = slice(None) if self.wanted.joint else band.heads
        self.sums[heads, band.first : band.last] += (ones @ cells)[:, 0, :]

    def result(self) -> np.ndarray:
        """The sum for each key `[h, m]` in float64; `[1, m]` of all heads together."""
        return to_numpy(self.sums).astype(np.float64)


class PooledBlocks:
    """Weights or scores pooled to blocks of rows x keys, gathered band by band, a band being some adjacent rows.

    Memory grows with the number of blocks, not with n times m.
    """

    def __init__(self, call: Banded, pool: Pool) -> None:
        self.pool, self.places = pool, RowPlaces(pool.picked, call.n)
        self.columns = None if pool.columns is None else np.array(pool.columns, dtype=np.int64)
        m = call.m if pool.columns is None else len(pool.columns)
        shape = (1 if pool.mean_heads else call.h, -(-len(self.places) // pool.rows), -(-m // pool.keys))
        signed = pool.of == "scores" or not call.rule.softmax  # without a softmax weights may be negative
        self.kept = np.full(shape, -np.inf if (signed or pool.lowest) and not pool.sums else 0.0)
        self.size = len(self.places), m
        self.allowed = np.zeros(shape) if pool.sums and pool.of == "scores" else None  # cells of a block

    def add(self, band: Band) -> None:
        """Take the wanted ones of a band's adjacent rows into blocks of rows x keys: rows are folded before keys."""
        pool, fit = self.pool, self.places.of(band)
        if fit is None:
            return
        cells, first = self._kept_columns(self._cells(band)[:, fit.inside, :], band)
        if pool.lowest:
            cells = to_numpy(cells)
            cells = np.where(np.isneginf(cells), cells, -cells)
        row = fit.kept.start if isinstance(fit.kept, slice) else fit.kept[0]
        heads = slice(None) if pool.mean_heads else band.heads
        if self.allowed is not None:
            cells = to_numpy(cells)
            allowed = ~np.isneginf(cells)
            self._fold(allowed.astype(cells.dtype), self.allowed[heads], row, first)
            cells = np.where(allowed, cells, 0)
        self._fold(cells, self.kept[heads], row, first)

    def _fold(self, cells: Array, kept: np.ndarray, row: int, first: int) -> None:
        """Fold cells `[h, b, c]` from a row and a key on into the blocks `kept` of these heads."""
        pool = self.pool
        blocks = folded(
            to_numpy(folded(cells, -2, row, pool.rows, sums=pool.sums)), -1, first, pool.keys, sums=pool.sums
        )
        top, left = row // pool.rows, first // pool.keys
        target = kept[:, top : top + blocks.shape[1], left : left + blocks.shape[2]]
        (np.add if pool.sums else np.maximum)(target, blocks, out=target)

    def _cells(self, band: Band) -> Array:
        """The band's cells `[h, b, c]`; on the processor a view in NumPy, whose maxima across rows are the fastest."""
        cells: Array
        if self.pool.of == "scores":
            cells = band.scores if not self.pool.mean_heads else band.scores.mean(0)[None]  # type: ignore[union-attr]
        else:
            cells = band.measured(self.pool.by, together=self.pool.mean_heads)
        return cells if is_torch(cells) and cells.device.type != "cpu" else to_numpy(cells)

    def _kept_columns(self, cells: Array, band: Band) -> tuple[Array, int]:
        if self.columns is None:
            return cells, band.first
        first, last = np.searchsorted(self.columns, (band.first, band.last))
        return cells[:, :, (self.columns[first:last] - band.first).tolist()], int(first)

    def result(self) -> np.ndarray:
        """The largest, smallest or summed number of each block, `[h, blocks of rows, blocks of keys]`."""
        if self.allowed is not None:
            height, width = map(block_sizes, self.size, (self.pool.rows, self.pool.keys))
            with np.errstate(divide="ignore", invalid="ignore"):
                sums = self.kept / self.allowed * (height[:, None] * width)
            return np.where(self.allowed > 0, sums, -np.inf)
        if self.pool.lowest:
            return -self.kept
        return self.kept if self.pool.of == "scores" else np.where(np.isneginf(self.kept), 0.0, self.kept)
