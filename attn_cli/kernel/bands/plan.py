"""The plan of a walk through a call, made once: the size of its bands, and the work that it may leave out."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.arrays import Array, at_least_float32, namespace, on_cpu, row_dot
from attn_cli.kernel.definition.rule import Rule
from attn_cli.selection import adjacent

BAND_BYTES = 10 * 2**20  # one band of scores; a product of few rows takes long to begin
GPU_BYTES = 256 * 2**20  # a GPU wants long kernels, and its memory is its cache
_FINITE = 1e30  # no sum of such numbers overflows
_FEW = 16  # rows


@dataclass(frozen=True)
class Plan:
    """How the weights of a layer's attention are computed, a band at a time: some adjacent query rows of some heads.

    heads, height     the most query heads and rows in a band; `heads` divides, or is a multiple of, the number of query
                      heads that share a key head
    finite_scores     no score is infinite or NaN, so masking may be an elementwise minimum
    """

    rows: Sequence[int]
    heads: int
    height: int
    keep_scores: bool = False
    finite_scores: bool = False

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
    on_gpu = not on_cpu(q)
    heads, height = tile_of(h, g, m, on_gpu=on_gpu, whole=not in_parts)
    return Plan(
        rows,
        heads,
        min(height, max(1, len(rows))),
        keep_scores=want_scores,
        # Asking reads all of q and k, which a few rows take no longer to be walked with.
        finite_scores=not on_gpu and len(rows) > _FEW and _has_finite_scores(q, k, rule),
    )


def plan_of_weights(weights: Array, rows: Sequence[int] | None = None) -> Plan:
    """How to read weights `[h, n, m]` that a model computed itself, as a `Plan`: all heads, some rows at a time."""
    h, n, m = weights.shape
    return Plan(range(n) if rows is None else rows, h, tile_of(h, h, m)[1])


def _has_finite_scores(q: Array, k: Array, rule: Rule) -> bool:
    if rule.bias is not None or 0 in k.shape:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        longest = [float(namespace(x).max(row_dot(x, x))) for x in (q, k)]
    return abs(float(rule.scale)) * math.prod(longest) ** 0.5 < _FINITE  # not so of NaN


def tile_of(h: int, g: int, m: int, *, on_gpu: bool = False, whole: bool = False) -> tuple[int, int]:
    """How many query heads and query rows to compute at a time, for h query heads over g key heads and m keys."""
    lines = max(192, (GPU_BYTES if on_gpu else BAND_BYTES) // max(1, 4 * m))  # rows of all heads together
    if whole:
        return h, max(16, min(128, lines // h // 16 * 16))
    share = h // g
    if lines >= 64 * share:
        heads = min(g, lines // (64 * share)) * share
    else:
        heads = max(x for x in range(1, min(share, lines // 32) + 1) if share % x == 0)
    return heads, max(32, min(128, lines // heads // 16 * 16))


def runs(rows: Sequence[int], height: int) -> Iterator[tuple[int, int]]:
    """Ascending row numbers as ranges (start, stop), stop excluded, without gaps, none of more than `height` rows."""
    for start, stop in [(rows.start, rows.stop)] if isinstance(rows, range) else adjacent(rows):
        yield from ((first, min(first + height, stop)) for first in range(start, stop, height))
