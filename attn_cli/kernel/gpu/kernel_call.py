"""One call as the Triton kernels take it: each sweep over its keys, with the arrays and constants that it is given."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from attn_cli.arrays import Array, moved_to, namespace, zeros
from attn_cli.kernel.definition.bias import Alibi, GivenBias
from attn_cli.kernel.definition.mask import Intervals
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.one_walk import NOTED_MOMENTS, OneWalk, WalkStats
from attn_cli.kernel.stats.wanted import Pool

_CELLS = 16  # single cells of every row at a time, of a longer list of them


class KernelTile(NamedTuple):
    """How many queries (`rows`) and keys a GPU kernel computes at a time, and Triton's numbers of warps and stages."""

    rows: int
    keys: int
    warps: int = 4
    stages: int = 2


def tile_of(q: Array, v: Array) -> KernelTile:
    """How many queries and keys fit a GPU core's memory, for the width and dtype of q `[h, n, d]` and v `[g, m, e]`."""
    wide = max(q.shape[2], v.shape[2])
    if str(q.dtype) == "torch.float32":
        return KernelTile(64, 32) if wide <= 64 else KernelTile(32, 32)
    if wide <= 64:
        return KernelTile(128, 64, 4, 3)
    return KernelTile(128, 64, 8, 3) if wide <= 128 else KernelTile(64, 32, 4, 2)


@dataclass(frozen=True, eq=False)
class KernelCall:
    """A layer's q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]` and rule as GPU kernels take them, and the wanted rows.

    rows  the numbers of the rows of which statistics are wanted, ascending; None for all

    Where a method takes `logsumexp` `[h, rows]`, it is each wanted row's log of the sum of exp(score).
    """

    q: Array
    k: Array
    v: Array
    rule: Rule
    span: Intervals
    tile: KernelTile
    rows: np.ndarray | None = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(h, R, m): the numbers of query heads, of rows whose statistics are wanted and of keys."""
        return (self.q.shape[0], len(self.span.first), self.k.shape[1])

    @property
    def picked(self) -> np.ndarray:
        """The indices among all queries of the R rows whose statistics are wanted, ascending `[R]`."""
        return np.arange(self.q.shape[1]) if self.rows is None else self.rows

    def forward(self, output: Array | None, *, moments: bool) -> Array:
        """Numbers of each of the R wanted rows `[5, h, R]`; `output` `[h, R, e]`, unless None, is filled."""
        from attn_cli.kernel.gpu.kernels import forward

        h, n, m = self.sizes
        numbers = self._zeros(len(NOTED_MOMENTS) if moments else 2, h, n)
        place = numbers[0] if output is None else output
        sink = self.q if self.rule.sink is None else self._moved(self.rule.sink).contiguous()
        v, e, fills = self.v, self.v.shape[2], output is not None
        finite = v.isfinite().all().to(namespace(v).int32) if fills else numbers
        for repairs in (False, True) if fills else (False,):
            forward[(_blocks(n, self.tile.rows), h)](
                *self._call, *_strided(v), e, finite, sink, m - self.q.shape[1], *_strided(place), numbers, h * n,
                E=_padded(e), SINK=self.rule.sink is not None, OUTPUT=fills, MOMENTS=moments and not repairs,
                REPAIRS=repairs, OF_VALUES=self._precision_of_values, **self._shape(),
            )  # fmt: skip
        return numbers

    @property
    def _precision_of_values(self) -> str:
        is_marks = str(self.v.dtype) == "torch.float32" != str(self.q.dtype)
        return "tf32x3" if is_marks and self.q.device.type == "cuda" and _is_nvidia() else "ieee"

    def received(self, logsumexp: Array) -> Array:
        """For each key the sum of the weights that the R wanted rows give it `[h, m]`."""
        from attn_cli.kernel.gpu.kernels import column_sums

        h, _, m = self.sizes
        received = self._zeros(h, m)
        seeing = (self._moved(x) for x in self._rows_that_see(self.tile.keys))
        column_sums[(_blocks(m, self.tile.keys), h)](*self._call, logsumexp, *seeing, received, **self._shape())
        return received

    def of_rows(self, rows: Sequence[int] | None) -> "KernelCall":
        """The same attention with these of all its query rows wanted; itself for None."""
        if rows is None:
            return self
        picked = np.array(rows, dtype=np.int32)
        return replace(self, span=Intervals(self.span.first[picked], self.span.last[picked]), rows=picked)

    def of_nothing(self, output: Array | None, wanted: OneWalk) -> WalkStats:
        """The statistics where no row is wanted: arrays without rows, and 0 for sums over rows."""
        (h, _, m), pool = self.sizes, wanted.pool
        of_rows = {"top_weights": wanted.top, "top_scores": wanted.top, "top_keys": wanted.top,
                   "key_sums": len(wanted.key_sets), "vector_sums": len(wanted.vectors)}  # fmt: skip
        return WalkStats(
            output,
            **(dict.fromkeys(NOTED_MOMENTS, self._zeros(h, 0)) if wanted.moments else {}),
            **{name: self._zeros(h, 0, count) for name, count in of_rows.items() if count},
            column_sums=self._zeros(h, m).double() if wanted.column_sums else None,
            pooled=None if pool is None else self._zeros(h, 0, _blocks(m, pool.keys)),
        )

    def _rows_that_see(self, keys: int) -> tuple[np.ndarray, np.ndarray]:
        """For every so many keys the first row of those that may see them, and the end of the last; to a tile."""
        _, n, m = self.sizes
        first, last = self.span.first, self.span.last
        live, tiles = first < last, np.arange(0, n, self.tile.rows)
        least = np.minimum.reduceat(np.where(live, first, m), tiles)
        largest = np.maximum.reduceat(np.where(live, last, 0), tiles)
        starts = np.arange(0, m, keys)[:, None]
        seeing = (least < starts + keys) & (largest > starts)  # [tiles of keys, tiles of rows]
        begin, end = seeing.argmax(axis=1), len(tiles) - seeing[:, ::-1].argmax(axis=1)
        rows = self.tile.rows * np.where(seeing.any(axis=1), (begin, end), 0)
        return rows[0].astype(np.int32), np.minimum(rows[1], n).astype(np.int32)

    def pooled(self, pool: Pool, logsumexp: Array) -> Array:
        """The largest weight of every block of rows x keys, or the sum, `[h, blocks of rows, blocks of keys]`."""
        from attn_cli.kernel.gpu.kernels import blocks

        h, n, m = self.sizes
        row_blocks, key_blocks = _blocks(n, pool.rows), _blocks(m, pool.keys)
        pooled = self._zeros(h, row_blocks, key_blocks)
        tile = KernelTile(min(self.tile.rows, _padded(pool.rows)), min(self.tile.keys, _padded(pool.keys)))
        blocks[(row_blocks * key_blocks, h)](
            *self._call, logsumexp, pooled, pool.rows, pool.keys, key_blocks, **self._shape(tile)
        )
        return pooled

    def cells(self, keys: np.ndarray, logsumexp: Array) -> Array:
        """The weights `[h, R, c]` of each of the R wanted rows on its own keys `[R, c]`; 0 where the key is -1."""
        from attn_cli.kernel.gpu.kernels import cell_weights

        (h, n, _), count = self.sizes, keys.shape[1]
        weights = self.q.new_empty((h, n, count), dtype=namespace(self.q).float32)
        chosen = self._moved(np.ascontiguousarray(keys, dtype=np.int32))
        shape = {name: value for name, value in self._shape().items() if name not in ("KEYS", "PRECISION")}
        cell_weights[(_blocks(n, self.tile.rows), h, count)](*self._call, logsumexp, chosen, weights, count, **shape)
        return weights

    def key_sums(self, key_sets: Sequence[np.ndarray], logsumexp: Array) -> Array:
        """For each of the R wanted rows the sum of its weights on each set of keys, `[h, R, sets]`."""
        h, n, _ = self.sizes
        keys = np.concatenate(key_sets, axis=1)
        keys = keys if self.rows is None else keys[self.rows]
        if keys.shape[1] == len(key_sets) <= _CELLS:
            return self.cells(keys, logsumexp)
        ends = np.cumsum([of_set.shape[1] for of_set in key_sets]).tolist()
        sums = self._zeros(h, n, len(key_sets))
        for start in range(0, keys.shape[1], _CELLS):
            cells = self.cells(keys[:, start : start + _CELLS], logsumexp)
            for number, (begin, end) in enumerate(pairwise([0, *ends])):
                of_set = cells[..., max(begin - start, 0) : max(end - start, 0)]
                if of_set.shape[-1]:
                    sums[..., number] += of_set.sum(-1)
        return sums

    def vector_sums(self, vectors: Sequence[np.ndarray]) -> Array:
        """The weights of the R wanted rows times each vector `[m]`, `[h, R, vectors]`: attention to these as values."""
        (h, n, _), g = self.sizes, self.k.shape[0]
        values = self._moved(np.stack(vectors, axis=1).astype(np.float32))  # [m, r], the same for all key heads
        sums = self._zeros(h, n, len(vectors))
        replace(self, v=values[None].expand(g, -1, -1)).forward(sums, moments=False)
        return sums

    def top(self, count: int, logsumexp: Array) -> dict[str, Array]:
        """The `count` largest of R wanted rows, `[h, R, count]`: top_weights, top_scores, top_keys, key -1 for none."""
        from attn_cli.kernel.gpu.kernels import largest_keys

        (h, n, _), width, xp = self.sizes, _padded(count, least=2), namespace(self.q)
        packed = xp.empty((h, n, width), dtype=xp.int64, device=self.q.device)
        tile = self.tile._replace(keys=max(self.tile.keys, width))
        largest_keys[(_blocks(n, tile.rows), h)](*self._call, packed, COUNT=width, **self._shape(tile))
        packed = packed[..., :count]
        there = packed != np.iinfo(np.int64).min
        bits = (packed >> 32).to(xp.int32)
        scores = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).view(xp.float32) * float(np.log(2))
        logarithms = (scores - logsumexp[..., None]).where(there, -np.inf)
        return {
            "top_weights": logarithms.exp(),
            "top_scores": scores.where(there, -np.inf),
            "top_keys": (0x7FFFFFFF - (packed & 0xFFFFFFFF)).where(there, -1).to(xp.int32),
        }

    @cached_property
    def _call(self) -> tuple[Any, ...]:
        h, n, m = self.sizes
        rows = (
            self._moved(np.ascontiguousarray(x, dtype=np.int32)) for x in (self.span.first, self.span.last, self.picked)
        )
        sizes = (h // self.k.shape[0], n, m, self.q.shape[2])
        slopes, offset, bias = self.q, 0, self.rule.bias
        if isinstance(bias, Alibi):
            slopes, offset, bias = self._moved(bias.slopes).contiguous(), bias.offset, None
        numbers = self.q if bias is None else self._moved(bias.numbers if isinstance(bias, GivenBias) else bias)
        strides = (0, 0, 0) if bias is None else _broadcast_strides(numbers)
        rule = (float(self.rule.scale), float(self.rule.softcap or 1), slopes, offset, numbers, *strides)
        return (*_strided(self.q), *_strided(self.k), *rows, *sizes, *rule)

    def _shape(self, tile: KernelTile | None = None) -> dict[str, Any]:
        rows, keys, warps, stages = tile or self.tile
        sloped = isinstance(self.rule.bias, Alibi)
        return {
            "ROWS": rows,
            "KEYS": keys,
            "D": _padded(self.q.shape[2]),
            "CAPPED": self.rule.softcap is not None,
            "SLOPED": sloped,
            "BIASED": self.rule.bias is not None and not sloped,
            "PRECISION": "ieee",
            "num_warps": warps,
            "num_stages": stages,
            "enable_fp_fusion": True,
        }

    def _zeros(self, *shape: int) -> Array:
        return zeros(shape, self.q)

    def _moved(self, x: Array) -> Array:
        return moved_to(self.q, x)


def _strided(x: Array) -> tuple[Array, int, int]:
    x = x if x.stride(-1) == 1 else x.contiguous()
    return (x, *x.stride()[:2])


def _broadcast_strides(bias: Array) -> tuple[int, ...]:
    shape = (1,) * (3 - bias.ndim) + tuple(bias.shape)
    strides = (0,) * (3 - bias.ndim) + tuple(bias.stride())
    return tuple(0 if size == 1 else step for size, step in zip(shape, strides, strict=True))


def _padded(size: int, least: int = 16) -> int:
    return max(least, 1 << (size - 1).bit_length())


def _blocks(size: int, step: int) -> int:
    return -(-size // step)


@cache
def _is_nvidia() -> bool:
    from triton.runtime import driver

    return bool(driver.active.get_current_target().backend == "cuda")
