"""The same attention a few query rows at a time, so that memory grows with n and not with n times m.

A band is `b` query rows against the keys that they may see: small enough to stay in the processor's cache between the
product, the softmax, the reducers that read it and the product with the values. Two buffers serve all bands of a call.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from attn_cli.arrays import Array, at_least_float32, is_torch, namespace, row_dot
from attn_cli.kernel.definition.masks import Span
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.definition.softmax import TAME, softmax_into, unnormalised
from attn_cli.kernel.walk.masked_cells import Blocked, block, blocked_cells, with_infinities
from attn_cli.kernel.walk.matmul import prefers_onednn, product, tall
from attn_cli.kernel.walk.plan import Tile, best_tile, few_widths, runs
from attn_cli.kernel.walk.threads import cores, in_order

_FINITE = 1e30  # no sum of such numbers overflows
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
    q, k, v = (at_least_float32(x) for x in (q, k, v))
    h, m = q.shape[0], k.shape[1]
    numbers = range(q.shape[1]) if rows is None else rows
    tile = Tile(heads or h, min(height or best_tile(q, k, whole=heads is None).height, max(1, len(numbers))))
    size = tile.heads * tile.height * m
    reach = _reach(q, k, rule)
    onednn = prefers_onednn(q, k)
    if onednn:
        k, v = k.contiguous(), v.contiguous()
    jobs = _jobs(q, k, v, rule, list(runs(numbers, tile.height)), tile, reach=reach, onednn=onednn)

    def room() -> tuple[_Buffer, _Buffer]:
        return _Buffer(q, size), _Buffer(q, size if want_scores else 0)

    if isinstance(q, np.ndarray) and len(numbers) * h * m > _LONG and cores() > 1:
        # NumPy's elementwise functions use one core each.
        yield from in_order(jobs, [room() for _ in range(cores() + 1)])
    else:
        only = room()
        yield from (job(only) for job in jobs)


def _jobs(
    q: Array,
    k: Array,
    v: Array,
    rule: Rule,
    pieces: Sequence[tuple[int, int]],
    tile: Tile,
    *,
    reach: float,
    onednn: bool,
) -> "Iterator[Callable[[tuple[_Buffer, _Buffer]], Band]]":
    """What makes the bands of these pieces of rows, a tile's heads at a time, each in memory it is given."""
    h, (g, m, _) = q.shape[0], k.shape
    keys_across = namespace(q).matrix_transpose(k)
    for start, stop in pieces:
        span = rule.mask.span(start, stop, m)
        by_onednn = onednn and span.last > span.first and tall((stop - start) * min(h // g, tile.heads))
        if by_onednn:
            span = few_widths(span, tile.height, m)
        blocked = blocked_cells(rule.mask, (start, stop), span, q, ceiling=reach < _FINITE)
        bias = rule.bias_of(start, stop, span.first, span.last)
        seen = slice(span.first, span.last)
        queries = q[:, start:stop, :] * rule.scale  # here and not on the products: b x d numbers instead of b x c
        for first in range(0, h, tile.heads):
            part = slice(first, min(first + tile.heads, h))
            shared = slice(part.start * g // h, max(part.stop * g // h, part.start * g // h + 1))
            yield partial(
                _band,
                (start, stop, span),
                part,
                queries[part, ...],
                keys_across[shared, :, seen],
                v[shared, seen, :],
                rule,
                None if rule.sink is None else rule.sink[part],
                None if bias is None else bias[part, ...] if bias.ndim == 3 and bias.shape[0] > 1 else bias,
                blocked,
                reach,
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
    blocked: Sequence[Blocked],
    reach: float,
    onednn: bool,
    room: "tuple[_Buffer, _Buffer]",
) -> Band:
    """One band of q `[h, b, d]`, scaled, keys_across `[g, d, c]`, v `[g, c, e]`, in `room` for scores and weights."""
    start, stop, span = place
    products, softened = room
    xp = namespace(q)
    (h, b, d), (g, _, c) = q.shape, keys_across.shape
    # Grouped heads share their keys: put a group's queries under each other, one product per key head.
    stacked = xp.reshape(q, (g, (h // g) * b, d))
    scores = xp.reshape(product(stacked, keys_across, products.view((g, (h // g) * b, c)), onednn=onednn), (h, b, c))
    scores = rule.capped(scores)
    if bias is not None:
        scores = scores + at_least_float32(bias)
    block(scores, blocked, heads)
    sure = span.open_last > span.open_first  # then every row of the band has a key to attend to
    if rule.softmax:
        out = softened.view((h, b, c)) if softened.size else scores
        weights = softmax_into(scores, sink, out, sure=sure, tame=reach <= TAME)
    else:
        weights = unnormalised(scores)
    gathered = xp.reshape(weights, (g, (h // g) * b, c))
    output = xp.reshape(product(gathered, v, onednn=onednn), (h, b, v.shape[-1]))
    return Band(start, stop, span.first, span.last, weights, scores if softened.size else None, output, heads)


def largest_score(q: Array, k: Array, rule: Rule) -> float:
    """What no score before bias and mask exceeds in size: the longest query times the longest key, or the softcap.

    Infinity or NaN if numbers, or their squares, are no finite ones: then scores may be neither.

    >>> largest_score(np.array([[[3.0, 4.0]]]), np.array([[[0.0, 2.0], [1.0, 0.0]]]), Rule(0.5))
    5.0
    """
    if 0 in q.shape or 0 in k.shape:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        squares = [float(namespace(x).max(row_dot(x, x))) for x in (q, k)]
    reach = abs(float(rule.scale)) * math.prod(squares) ** 0.5
    return reach if rule.softcap is None or not math.isfinite(reach) else min(reach, float(rule.softcap))


def _reach(q: Array, k: Array, rule: Rule) -> float:
    """The size that no score exceeds; infinity where nobody asked: a GPU would wait for the answer."""
    at_hand = isinstance(q, np.ndarray) or (is_torch(q) and q.device.type == "cpu")
    return largest_score(q, k, rule) if at_hand and rule.bias is None else math.inf


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
