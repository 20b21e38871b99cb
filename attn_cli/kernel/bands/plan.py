"""The plan of a walk through a call, made once: the size of its bands, and the work that it may leave out."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attn_cli.arrays import Array, at_least_float32, is_torch, namespace, row_dot
from attn_cli.kernel.bands.band import Executor
from attn_cli.kernel.bands.passes import SAFE_SCORE, in_passes
from attn_cli.kernel.bands.threads import cores
from attn_cli.kernel.definition.rule import Rule

CACHE_BYTES = 3 * 2**20  # one band of scores; measured best between 1.5 and 3 MiB on processors with 1 MiB of L2 a core
GPU_BYTES = 256 * 2**20  # a GPU wants long kernels, and its memory is its cache
_FINITE = 1e30  # no sum of such numbers overflows
_FEW = 8  # fewer rows than this part of all are few
_THREADED = 2**24  # scores; fewer are computed before a second thread has begun


@dataclass(frozen=True)
class Plan:
    """How the weights of a layer's attention are computed, a band at a time: some adjacent query rows of some heads.

    heads, height     the most query heads and rows in a band; `heads` divides, or is a multiple of, the number of query
                      heads that share a key head
    finite_scores     no score is infinite or NaN, so masking may be an elementwise minimum
    subtract_maximum  the softmax subtracts the row's maximum, as is safe; not if all exponentials fit into a float32
    threads           how many compute bands ahead of the reader; 0: the reader's thread computes them
    """

    rows: Sequence[int]
    heads: int
    height: int
    keep_scores: bool = False
    executor: Executor = in_passes
    finite_scores: bool = False
    subtract_maximum: bool = True
    threads: int = 0

    def pieces(self) -> Iterator[tuple[int, int]]:
        """The query rows as ranges (start, stop), stop excluded, without gaps, each of at most `height` rows."""
        return runs(self.rows, self.height)


Planner = Callable[..., Plan]
"""A function that plans the walk of a call, in the signature of `plan_of`."""


def plan_of(
    q: Array,
    k: Array,
    rule: Rule,
    *,
    rows: Sequence[int] | None = None,
    want_scores: bool = False,
    in_parts: bool = False,
) -> Plan:
    """The quickest way known to compute the weights of h query heads q `[h, n, d]` and g key heads k `[g, m, d]`."""
    rows = range(q.shape[1]) if rows is None else rows
    q, k = at_least_float32(q), at_least_float32(k)
    (h, _, _), (g, m, _) = q.shape, k.shape
    tile = tile_of(h, g, m, on_gpu=is_torch(q) and q.device.type != "cpu", whole=not in_parts)
    # Asking reads all of q and k, which a few rows take no longer to be walked with.
    reach = _reach(q, k, rule) if _FEW * len(rows) > q.shape[1] else math.inf
    # NumPy's elementwise functions use one core each.
    threads = cores() if isinstance(q, np.ndarray) and len(rows) * h * m > _THREADED else 0
    return Plan(
        rows,
        tile.heads,
        min(tile.height, max(1, len(rows))),
        keep_scores=want_scores,
        finite_scores=reach < _FINITE,
        subtract_maximum=not reach <= SAFE_SCORE,
        threads=threads if threads > 1 else 0,
    )


def plan_of_weights(weights: Array, rows: Sequence[int] | None = None) -> Plan:
    """How to read weights `[h, n, m]` that a model computed itself, as a `Plan`: all heads, some rows at a time."""
    h, n, m = weights.shape
    return Plan(range(n) if rows is None else rows, h, tile_of(h, h, m).height)


def _reach(q: Array, k: Array, rule: Rule) -> float:
    at_hand = isinstance(q, np.ndarray) or (is_torch(q) and q.device.type == "cpu")
    return largest_score(q, k, rule) if at_hand and rule.bias is None else math.inf


def largest_score(q: Array, k: Array, rule: Rule) -> float:
    """A bound on |score| before bias and mask: |scale| times the length of the longest query and of the longest key."""
    if 0 in q.shape or 0 in k.shape:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        squares = [float(namespace(x).max(row_dot(x, x))) for x in (q, k)]
    reach = abs(float(rule.scale)) * math.prod(squares) ** 0.5
    return reach if rule.softcap is None or not math.isfinite(reach) else min(reach, float(rule.softcap))


class Tile(NamedTuple):
    """How many query heads and how many query rows are computed at a time."""

    heads: int
    height: int


def tile_of(h: int, g: int, m: int, *, on_gpu: bool = False, whole: bool = False) -> Tile:
    """How many heads and rows to compute at a time, for h query heads over g key heads and m keys."""
    lines = max(192, (GPU_BYTES if on_gpu else CACHE_BYTES) // max(1, 4 * m))  # rows of all heads together
    if whole:
        return Tile(h, max(16, min(128, lines // h // 16 * 16)))
    share = h // g
    if lines >= (64 if on_gpu else 128) * h:
        heads = h
    elif lines >= 96 * share:
        heads = _side_by_side(min(g, lines // (96 * share)), g) * share
    elif lines >= 64 * share:
        heads = share
    else:
        heads = max(x for x in range(1, min(share, lines // 32) + 1) if share % x == 0)
    return Tile(heads, max(32, min(128, lines // heads // 16 * 16)))


def _side_by_side(most: int, g: int) -> int:
    """The number of g products, at most `most`, that keeps cores evenly busy: 1, 2, 4, 8 ..., with few left over.

    >>> _side_by_side(6, 12), _side_by_side(8, 12), _side_by_side(2, 3), _side_by_side(4, 25)
    (4, 4, 1, 4)
    """
    count = 1 << (most.bit_length() - 1)
    while g % count and g < 2 * count:
        count //= 2
    return count


def runs(rows: Sequence[int], height: int) -> Iterator[tuple[int, int]]:
    """Ascending row numbers as ranges (start, stop), stop excluded, without gaps, none of more than `height` rows."""
    if isinstance(rows, range):
        yield from ((start, min(start + height, rows.stop)) for start in range(rows.start, rows.stop, height))
        return
    start = at = None
    for row in rows:
        if start is None or at is None:
            start = at = row
        elif row == at + 1 and row - start < height:
            at = row
        else:
            yield start, at + 1
            start = at = row
    if start is not None and at is not None:
        yield start, at + 1
