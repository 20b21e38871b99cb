"""The plan of a walk through a call, made once: its rows, and the size of its bands."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from attn_cli.arrays import Array, on_cpu
from attn_cli.selection import adjacent

BAND_BYTES = 14 * 2**20  # one band of scores; a product of few rows takes long to begin
GPU_BYTES = 256 * 2**20  # a GPU wants long kernels, and its memory is its cache


@dataclass(frozen=True)
class Plan:
    """How the weights of a layer's attention are computed, a band at a time: some adjacent query rows of some heads.

    heads, height     the most query heads and rows in a band; `heads` divides, or is a multiple of, the number of query
                      heads that share a key head
    """

    rows: Sequence[int]
    heads: int
    height: int
    keep_scores: bool = False

    def pieces(self) -> Iterator[tuple[int, int]]:
        """The query rows as ranges (start, stop), stop excluded, without gaps, each of at most `height` rows."""
        return runs(self.rows, self.height)


Planner = Callable[..., Plan]
"""A function that plans the walk of a call, in the signature of `plan_of`."""


def plan_of(
    q: Array,
    k: Array,
    *,
    rows: Sequence[int] | None = None,
    want_scores: bool = False,
    in_parts: bool = False,
) -> Plan:
    """The quickest way known to compute the weights of h query heads q `[h, n, d]` and g key heads k `[g, m, d]`."""
    rows = range(q.shape[1]) if rows is None else rows
    heads, height = tile_of(q.shape[0], *k.shape[:2], on_gpu=not on_cpu(q), whole=not in_parts)
    return Plan(rows, heads, min(height, max(1, len(rows))), keep_scores=want_scores)


def plan_of_weights(weights: Array, rows: Sequence[int] | None = None) -> Plan:
    """How to read weights `[h, n, m]` that a model computed itself, as a `Plan`: all heads, some rows at a time."""
    h, n, m = weights.shape
    return Plan(range(n) if rows is None else rows, h, tile_of(h, h, m)[1])


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
