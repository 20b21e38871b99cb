"""The same attention a few query rows at a time, so that memory grows with n and not with n times m.

A band is `b` query rows against the keys that they may see: small enough to stay in the processor's cache between the
product, the softmax, the reducers that read it and the product with the values. Two buffers serve all bands of a call.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from attn_cli.arrays import Array, indices, is_torch, namespace, raised, row_dot
from attn_cli.kernel.ahead import cores, in_order
from attn_cli.kernel.masks import Span
from attn_cli.kernel.rule import Rule
from attn_cli.kernel.softmax import TAME, softmax_into, unnormalised
from attn_cli.products import prefers_onednn, product, tall

CACHE_BYTES = 3 * 2**20  # one band of scores; measured best between 1.5 and 3 MiB on processors with 1 MiB of L2 a core
ONEDNN_BYTES = 4 * 2**20  # the same where oneDNN multiplies one key head at a time
GPU_BYTES = 256 * 2**20  # a GPU wants long kernels, and its memory is its cache
_WIDTHS = 32  # of the bands of a walk where oneDNN multiplies: it keeps a kernel of half a megabyte for each
_LONG = 2**24  # scores; fewer are done before a second thread has begun


@dataclass(frozen=True)
class Band:
    """Query rows start:stop against keys first:last; every key outside is blocked for all of these rows.

    weights `[h, b, c]` with c = last - first; output `[h, b, e]`; raw_scores `[h, b, c]`, None when nobody asked, with
    the lowest finite number where blocked, so that a weight of 0 times its score is 0.
    heads  which of the call's heads these are: all of them, unless a walk was asked for in parts
    Do not keep any of the arrays: their memory is used again for the next band.
    """

    start: int
    stop: int
    first: int
    last: int
    weights: Array
    raw_scores: Array | None
    output: Array
    heads: slice = field(default_factory=lambda: slice(None))

    @property
    def scores(self) -> Array | None:
        """The scores with -inf where blocked; a copy."""
        return None if self.raw_scores is None else with_infinities(self.raw_scores)


class Tile(NamedTuple):
    """How many heads and how many query rows make a band."""

    heads: int
    height: int


def tile_of(h: int, g: int, m: int, *, on_gpu: bool = False, whole: bool = False) -> Tile:
    """A band of about the cache's size for h query heads over g key heads and m keys; all heads if `whole`.

    Lower than 64 rows makes slow matrix products, except where heads that share their keys are multiplied together;
    taller than 128 computes too much of the blocked triangle of a causal layer. On a processor 96 rows and up are best,
    of as many key heads as cores take side by side (measured: at 4,096 keys 3 x 64 rows take 1.3 times as long as
    2 x 96, for two cores wait for a third product).

    >>> tile_of(12, 12, 512), tile_of(12, 12, 2048), tile_of(12, 12, 4096)
    (Tile(heads=12, height=128), Tile(heads=4, height=96), Tile(heads=2, height=96))
    >>> tile_of(9, 3, 2048), tile_of(9, 3, 8192)
    (Tile(heads=3, height=128), Tile(heads=3, height=64))
    """
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
        heads = max(x for x in range(1, share + 1) if share % x == 0 and x * 32 <= lines)
    return Tile(heads, max(32, min(128, lines // heads // 16 * 16)))


def _side_by_side(most: int, g: int) -> int:
    """How many of g products, `most` at a time, keep cores busy evenly: 1, 2, 4, 8 ..., with few left over at the end.

    >>> _side_by_side(6, 12), _side_by_side(8, 12), _side_by_side(2, 3), _side_by_side(4, 25)
    (4, 4, 1, 4)
    """
    count = 1 << (most.bit_length() - 1)
    while g % count and g < 2 * count:
        count //= 2
    return count


def onednn_tile(h: int, g: int, m: int) -> Tile:
    """The same where oneDNN multiplies, one key head after the other: 256 rows a product, more if keys are few.

    Both cores work on each product, which lower ones don't pay for; taller than 128 rows a head only if it has its keys
    alone (measured: at 4,096 keys 1 x 256 rows take 127 ms, 1 x 128 158, MKL's best tile 182).

    >>> onednn_tile(12, 12, 2048), onednn_tile(9, 3, 2048), onednn_tile(9, 3, 8192)
    (Tile(heads=1, height=256), Tile(heads=3, height=128), Tile(heads=3, height=80))
    """
    lines, share = max(256, ONEDNN_BYTES // (4 * m)), h // g
    heads = max(x for x in range(1, share + 1) if share % x == 0 and x * 32 <= lines)
    return Tile(heads, min(256 if heads == 1 else 128, lines // heads // 16 * 16))


def best_tile(q: Array, k: Array, *, whole: bool = False) -> Tile:
    """The tile for q `[h, n, d]` and k `[g, m, d]` where they are and by what multiplies them."""
    if not whole and prefers_onednn(q, k):
        return onednn_tile(q.shape[0], k.shape[0], k.shape[1])
    on_gpu = is_torch(q) and q.device.type != "cpu"
    return tile_of(q.shape[0], k.shape[0], k.shape[1], on_gpu=on_gpu, whole=whole)


def runs(rows: Sequence[int], height: int) -> Iterator[tuple[int, int]]:
    """Ascending row numbers as start:stop pieces without gaps, none taller than `height`.

    >>> list(runs([0, 1, 2, 5], 2))
    [(0, 2), (2, 3), (5, 6)]
    """
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


def bands(
    q: Array,
    k: Array,
    v: Array,
    rule: Rule,
    *,
    rows: Sequence[int] | None = None,
    height: int | None = None,
    heads: int | None = None,
    want_scores: bool = False,
) -> Iterator[Band]:
    """Bands of softmax(q kᵀ * scale + bias + mask) v, ascending; of all queries, or of the asked `rows` (ascending).

    q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`; equals `dense.attend` cell by cell for every height (tests).
    With `heads` the same rows of so many heads after the other, for readers that don't need all heads at once; it
    divides, or is a multiple of, the number of heads that share a key head.
    """
    q, k, v = (raised(x) for x in (q, k, v))
    h, m = q.shape[0], k.shape[1]
    numbers = range(q.shape[1]) if rows is None else rows
    tile = Tile(heads or h, min(height or best_tile(q, k, whole=heads is None).height, max(1, len(numbers))))
    size = tile.heads * tile.height * m
    tame = isinstance(q, np.ndarray) and rule.bias is None and largest_score(q, k, rule) <= TAME
    onednn = prefers_onednn(q, k)
    if onednn:
        k, v = k.contiguous(), v.contiguous()
    jobs = _jobs(q, k, v, rule, list(runs(numbers, tile.height)), tile, tame=tame, onednn=onednn)

    def room() -> tuple[_Buffer, _Buffer]:
        return _Buffer(q, size), _Buffer(q, size if want_scores else 0)

    if isinstance(q, np.ndarray) and len(numbers) * h * m > _LONG and cores() > 1:
        # NumPy's elementwise functions use one core each.
        yield from in_order(jobs, [room() for _ in range(cores() + 1)])
    else:
        only = room()
        yield from (job(only) for job in jobs)


def _jobs(
    q: Array, k: Array, v: Array, rule: Rule, pieces: Sequence[tuple[int, int]], tile: Tile, *, tame: bool, onednn: bool
) -> "Iterator[Callable[[tuple[_Buffer, _Buffer]], Band]]":
    """What makes the bands of these pieces of rows, a tile's heads at a time, each in memory it is given."""
    h, (g, m, _) = q.shape[0], k.shape
    keys_across = namespace(q).matrix_transpose(k)
    for start, stop in pieces:
        span = rule.mask.span(start, stop, m)
        by_onednn = onednn and span.last > span.first and tall((stop - start) * min(h // g, tile.heads))
        if by_onednn:
            span = _wider(span, tile.height, m)
        blocked = _blocked(rule, (start, stop), span, q)
        bias = rule.bias_of(start, stop, span.first, span.last)
        seen = slice(span.first, span.last)
        for first in range(0, h, tile.heads):
            part = slice(first, min(first + tile.heads, h))
            shared = slice(part.start * g // h, max(part.stop * g // h, part.start * g // h + 1))
            yield partial(
                _band,
                (start, stop, span),
                part,
                q[part, start:stop, :],
                keys_across[shared, :, seen],
                v[shared, seen, :],
                rule,
                None if rule.sink is None else rule.sink[part],
                None if bias is None else bias[part, ...] if bias.ndim == 3 and bias.shape[0] > 1 else bias,
                blocked,
                tame,
                by_onednn,
            )


def _band(
    place: tuple[int, int, Span],
    heads: slice,
    q: Array,
    keys_across: Array,
    v: Array,
    rule: Rule,
    sink: Array | None,
    bias: Array | None,
    blocked: Sequence[tuple[slice, Array]],
    tame: bool,
    onednn: bool,
    room: "tuple[_Buffer, _Buffer]",
) -> Band:
    """One band of q `[h, b, d]`, keys_across `[g, d, c]`, v `[g, c, e]`, in `room` for its scores and its weights."""
    start, stop, span = place
    products, softened = room
    xp = namespace(q)
    (h, b, d), (g, _, c) = q.shape, keys_across.shape
    queries = q * rule.scale  # here and not on the products: b x d numbers instead of b x c
    # Grouped heads share their keys: put a group's queries under each other, one product per key head.
    stacked = xp.reshape(queries, (g, (h // g) * b, d))
    scores = xp.reshape(product(stacked, keys_across, products.view((g, (h // g) * b, c)), onednn=onednn), (h, b, c))
    scores = rule.capped(scores)
    if bias is not None:
        scores = scores + raised(bias)
    block(scores, blocked, heads)
    sure = span.open_last > span.open_first  # then every row of the band has a key to attend to
    if rule.softmax:
        out = softened.view((h, b, c)) if softened.size else scores
        weights = softmax_into(scores, sink, out, sure=sure, tame=tame)
    else:
        weights = unnormalised(scores)
    gathered = xp.reshape(weights, (g, (h // g) * b, c))
    output = xp.reshape(product(gathered, v, onednn=onednn), (h, b, v.shape[-1]))
    return Band(start, stop, span.first, span.last, weights, scores if softened.size else None, output, heads)


def largest_score(q: Array, k: Array, rule: Rule) -> float:
    """What no score before bias and mask exceeds in size: the longest query times the longest key, or the softcap.

    >>> largest_score(np.array([[[3.0, 4.0]]]), np.array([[[0.0, 2.0], [1.0, 0.0]]]), Rule(0.5))
    5.0
    """
    if q.size == 0 or k.size == 0:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # infinity, and NaN for NaN, are the answer
        squares = [float(namespace(x).max(row_dot(x, x))) for x in (q, k)]
    reach = abs(float(rule.scale)) * math.prod(squares) ** 0.5
    return reach if rule.softcap is None else min(reach, float(rule.softcap))


def _wider(span: Span, height: int, m: int) -> Span:
    """The span with blocked keys after it, so that all bands of a walk have one of few widths.

    Spans that don't start at the first key are a window's, whose widths are the same anyway.

    >>> _wider(Span(0, 0, 90, 100), 64, 4096), _wider(Span(0, 0, 90, 100), 64, 8192).last
    (Span(first=0, open_first=0, open_last=90, last=128), 256)
    """
    if span.first > 0:
        return span
    step = height * -(-m // (_WIDTHS * height))
    return span._replace(last=min(m, -(-span.last // step) * step))


def _blocked(rule: Rule, rows: tuple[int, int], span: Span, like: Array) -> list[tuple[slice, Array]]:
    """Which cells of a band are blocked: for columns of the band booleans `[b, .]` or `[h, b, .]`.

    Only keys that are not open for all rows are asked.
    """
    found = []
    for left, right in ((span.first, span.open_first), (span.open_last, span.last)):
        if right > left:
            allowed = rule.mask.allowed(indices(*rows, like)[:, None], indices(left, right, like)[None, :])
            found.append((slice(left - span.first, right - span.first), ~allowed))
    return found


def block(scores: Array, blocked: Sequence[tuple[slice, Array]], heads: slice) -> None:
    """Set the blocked cells of a band of these heads to the lowest number, in place."""
    lowest = lowest_of(scores)
    for columns, cells in blocked:
        closed = cells[heads, ...] if cells.ndim == 3 and cells.shape[0] > 1 else cells
        part = scores[..., columns]
        if is_torch(scores):
            part.masked_fill_(closed, lowest)
        elif isinstance(scores, np.ndarray):
            np.copyto(part, lowest, where=closed)
        else:
            xp = namespace(scores)
            scores[..., columns] = xp.where(closed, xp.full_like(part, lowest), part)


def lowest_of(scores: Array) -> float:
    """The lowest finite number of the precision: its exponential is 0, and 0 times it is 0 and not NaN."""
    return float(namespace(scores).finfo(scores.dtype).min)


def with_infinities(scores: Array) -> Array:
    """A copy of `scores` with -inf in the blocked cells."""
    xp = namespace(scores)
    return xp.where(scores == lowest_of(scores), xp.full_like(scores, -float("inf")), scores)


class _Buffer:
    """Memory for one band after the other: fresh pages for each would cost as much as a pass over the numbers."""

    def __init__(self, like: Array, size: int) -> None:
        self.size = size
        if is_torch(like):
            self.flat = like.new_empty(size)
        else:
            self.flat = np.empty(size, dtype=like.dtype) if isinstance(like, np.ndarray) else None

    def view(self, shape: tuple[int, int, int]) -> Array:
        """The first numbers of the buffer as an array of `shape`; None where the library has no buffers."""
        return None if self.flat is None else self.flat[: shape[0] * shape[1] * shape[2]].reshape(shape)
