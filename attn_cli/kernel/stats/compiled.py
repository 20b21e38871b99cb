"""Row statistics by compiled code, that of processors or of GPUs: the same as `of_bands`, sooner, where one suits."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from attn_cli.arrays import Array, is_torch
from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import plan_of
from attn_cli.kernel.cpu import walk as cpu
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.one_walk import MOST_TOP, NOTED_MOMENTS, OneWalk, WalkStats
from attn_cli.kernel.stats.wanted import ColumnSums, Pool, RankedKeys, Rows, RowStats, TopK, Wanted

# The fields of `Wanted` that one walk can note; whatever else is wanted is left to bands.
_KNOWN = {"rows", "moments", "key_sets", "vectors", "tops", "column_sums", "pools"}
Notes = Callable[[OneWalk, Array | None], WalkStats | None]
"""Notes numbers of all rows of a call in one walk, which fills the output; None if it can't."""


def compiled_stats(q: Array, k: Array, v: Array, rule: Rule, wanted: Wanted, output: Array | None) -> RowStats | None:
    """The statistics of rows (entropy, largest weights ...) that `wanted` asks for, by compiled code."""
    return stats_of_walks(partial(walked_at_once, q, k, v, rule), wanted, k.shape[1], output)


def numpy_stats(q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule, wanted: Wanted) -> RowStats | None:
    """The statistics of NumPy's q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`; None where compiled code can't."""
    shapes = (*q.shape, *k.shape, *v.shape)
    if q.dtype == np.float64 or 0 in shapes or not cpu.suits_rule(rule, k.shape[1]):
        return None

    def notes(one: OneWalk, output: Array | None) -> WalkStats | None:
        return cpu.row_stats(q, k, v, rule, one, output)

    return stats_of_walks(notes, wanted, k.shape[1], None)


def stats_of_walks(notes: Notes, wanted: Wanted, m: int, output: Array | None) -> RowStats | None:
    """The statistics over m keys that `wanted` asks for, by as many walks as they take; the first fills `output`."""
    if not _is_of_weights(wanted):
        return None
    stats = RowStats(wanted)
    for each in _walks(wanted, m):
        numbers = notes(each.one, output)
        if numbers is None:
            return None
        stats, output = each.added(stats, numbers), None
    return stats


def _is_of_weights(wanted: Wanted) -> bool:
    """True if compiled code knows all that is wanted: sums of weights, and the few largest with their scores."""
    return (
        not any(getattr(wanted, x.name) for x in fields(wanted) if x.name not in _KNOWN)
        and {*wanted.moments} <= {"masked", *NOTED_MOMENTS}
        and all(x.by == "weight" and x.count <= MOST_TOP and not x.mean_heads for x in wanted.tops)
        and all(x.by == "weight" for x in wanted.column_sums)
        and all(_is_plain(pool) for pool in wanted.pools)
    )


def _is_plain(pool: Pool) -> bool:
    known = (pool.by, pool.of, pool.columns, pool.lowest, pool.mean_heads)
    return known == ("weight", "weights", None, False, False)


@dataclass
class _Walk:
    """The request of one walk of compiled code, and the wishes that its numbers answer."""

    rows: Rows
    one: OneWalk
    tops: list[TopK] = field(default_factory=list)
    columns: ColumnSums | None = None
    pool: Pool | None = None

    def added(self, stats: RowStats, noted: WalkStats) -> RowStats:
        """The statistics with what was noted."""
        names = [name for name in stats.wanted.moments if self.one.moments]
        moments: dict[str, Any] = {
            name: noted.maximum == -math.inf if name == "masked" else getattr(noted, name) for name in names
        }
        if self.one.key_sets:
            moments["key_sums"] = noted.key_sums
        if self.one.vectors:
            moments["vector_sums"] = noted.vector_sums
        stats = replace(stats, **moments)
        for top in self.tops:
            ranked = (noted.top_weights, noted.top_scores if top.scores else None, noted.top_keys)
            stats.tops[top] = RankedKeys(*(None if x is None else x[..., : top.count] for x in ranked))
        if self.columns is not None and noted.column_sums is not None:
            stats.column_sums[self.columns] = noted.column_sums
        if self.pool is not None and noted.pooled is not None:
            stats.pooled[self.pool] = noted.pooled
        return stats


def _walks(wanted: Wanted, m: int) -> list[_Walk]:
    """The walks that note all that is wanted; the first notes the single rows."""
    one = OneWalk(moments=bool(wanted.moments), key_sets=wanted.key_sets, vectors=wanted.vectors)
    rows = wanted.rows
    if not wanted.notes_rows:  # then sums over rows choose them
        rows = next((x.rows for x in wanted.column_sums), next((x.picked for x in wanted.pools), rows))
    walks = [_Walk(rows, one, tops=list(wanted.tops))]
    for columns in wanted.column_sums:
        takes = [walk.rows == columns.rows and walk.columns is None for walk in walks]
        _place(walks, columns.rows, takes).columns = columns
    for pool in wanted.pools:
        _place(walks, pool.picked, [walk.pool is None and walk.rows == pool.picked for walk in walks]).pool = pool
    top = min(m, max((top.count for top in wanted.tops), default=0))
    for walk in walks:
        walk.one = replace(walk.one, rows=walk.rows, column_sums=walk.columns is not None, pool=walk.pool)
    walks[0].one = replace(walks[0].one, top=top)
    return walks


def _place(walks: list[_Walk], rows: Rows, takes: list[bool]) -> _Walk:
    if True not in takes:
        walks.append(_Walk(rows, OneWalk()))
        return walks[-1]
    return walks[takes.index(True)]


def walked_at_once(q: Array, k: Array, v: Array, rule: Rule, wanted: OneWalk, output: Array | None) -> WalkStats | None:
    """The statistics that `wanted` asks for, in one pass of compiled code; None where none suits.

    q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`; output `[h, n, e]` is filled, if it isn't None.
    """
    if cpu.suits(q, k, v, rule):
        return cpu.row_stats(q, k, v, rule, wanted, output)
    if is_torch(q) and q.device.type == "cuda":
        from attn_cli.kernel.gpu import walk as gpu  # here: all others need none

        return gpu.row_stats(q, k, v, rule, wanted, output) if gpu.suits(q, k, v, rule) else None
    return None


def output_alone(q: Array, k: Array, v: Array, rule: Rule) -> Array:
    """The output `[h, n, e]` of q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`, torch tensors, in the dtype of q."""
    output = q.new_zeros((q.shape[0], q.shape[1], v.shape[2]))
    if walked_at_once(q, k, v, rule, OneWalk(), output) is None:
        for band in bands(q, k, v, rule, plan_of(q, k, rule)):
            output[band.heads, band.start : band.stop] = band.output
    return output
