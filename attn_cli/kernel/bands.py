"""The same attention a few query rows at a time, so that memory grows with n and not with n times m.

A band is `b` query rows against the keys that they may see: small enough to stay in the processor's cache between the
product, the softmax, the reducers that read it and the product with the values. Two buffers serve all bands of a call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.arrays import Array, indices, is_torch, namespace, raised
from attn_cli.kernel.masks import Span
from attn_cli.kernel.rule import Rule
from attn_cli.kernel.softmax import softmax_into, unnormalised

CACHE_BYTES = 4 * 2**20  # one band of scores; measured flat between 2 and 8 MiB on several processors
GPU_BYTES = 256 * 2**20  # a GPU wants long kernels, and its memory is its cache


@dataclass(frozen=True)
class Band:
    """Query rows start:stop against keys first:last; every key outside is blocked for all of these rows.

    weights `[h, b, c]` with c = last - first; output `[h, b, e]`; raw_scores `[h, b, c]`, None when nobody asked, with
    the lowest finite number where blocked, so that a weight of 0 times its score is 0.
    Do not keep any of the arrays: their memory is used again for the next band.
    """

    start: int
    stop: int
    first: int
    last: int
    weights: Array
    raw_scores: Array | None
    output: Array

    @property
    def scores(self) -> Array | None:
        """The scores with -inf where blocked; a copy."""
        return None if self.raw_scores is None else with_infinities(self.raw_scores)


def band_height(h: int, m: int, budget: int = CACHE_BYTES) -> int:
    """How many query rows of h heads against m keys make a band of about `budget` bytes of float32, 64 to 128.

    A lower band makes slow matrix products; a taller one of a causal layer computes too much of the blocked triangle.
    """
    return max(64, min(128, budget // max(1, 4 * h * m) // 16 * 16))


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
    want_scores: bool = False,
) -> Iterator[Band]:
    """Bands of softmax(q kᵀ * scale + bias + mask) v, ascending; of all queries, or of the asked `rows` (ascending).

    q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]`; equals `dense.attend` cell by cell for every height (tests).
    """
    q, k, v = (raised(x) for x in (q, k, v))
    xp = namespace(q)
    h, n, d = q.shape
    g, m, _ = k.shape
    on_gpu = is_torch(q) and q.device.type != "cpu"
    step = height or band_height(h, m, GPU_BYTES if on_gpu else CACHE_BYTES)
    keys_across = xp.matrix_transpose(k)
    products, softened = _Buffer(q, h * step * m), _Buffer(q, h * step * m if want_scores or is_torch(q) else 0)
    for start, stop in runs(range(n) if rows is None else rows, step):
        span = rule.mask.span(start, stop, m)
        b, c = stop - start, span.last - span.first
        queries = q[:, start:stop, :] * rule.scale  # here and not on the products: b x d numbers instead of b x m
        # Grouped heads share their keys: put a group's queries under each other, one product per key head.
        stacked = xp.reshape(queries, (g, (h // g) * b, d))
        scores = products.multiply(stacked, keys_across[:, :, span.first : span.last], (h, b, c))
        scores = rule.capped(scores)
        bias = rule.bias_of(start, stop, span.first, span.last)
        if bias is not None:
            scores = scores + raised(bias)
        block(scores, rule, (start, stop), span)
        sure = span.open_last > span.open_first  # then every row of the band has a key to attend to
        if rule.softmax:
            weights = softmax_into(scores, rule.sink, softened.view((h, b, c)) if softened.size else scores, sure=sure)
        else:
            weights = unnormalised(scores)
        gathered = xp.reshape(weights, (g, (h // g) * b, c))
        output = xp.reshape(gathered @ v[:, span.first : span.last, :], (h, b, v.shape[-1]))
        kept = scores if softened.size else None
        yield Band(start, stop, span.first, span.last, weights, kept, output)


def block(scores: Array, rule: Rule, rows: tuple[int, int], span: Span) -> None:
    """Set the blocked cells of a band to the lowest number, in place; only keys not open for all rows are asked."""
    xp = namespace(scores)
    lowest = lowest_of(scores)
    for left, right in ((span.first, span.open_first), (span.open_last, span.last)):
        if right > left:
            i = indices(*rows, scores)[:, None]
            j = indices(left, right, scores)[None, :]
            allowed = rule.mask.allowed(i, j)
            part = scores[..., left - span.first : right - span.first]
            if is_torch(scores):
                part.masked_fill_(~allowed, lowest)
            elif isinstance(scores, np.ndarray):
                np.copyto(part, lowest, where=~allowed)
            else:
                blocked = xp.where(allowed, part, xp.full_like(part, lowest))
                scores[..., left - span.first : right - span.first] = blocked


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

    def multiply(self, a: Array, b: Array, shape: tuple[int, int, int]) -> Array:
        """The batched product of a and b in this memory, seen as `shape`."""
        xp = namespace(a)
        room = self.view((a.shape[0], a.shape[1], b.shape[2]))
        if room is None:
            return xp.reshape(a @ b, shape)
        return (xp.bmm if is_torch(a) else np.matmul)(a, b, out=room).reshape(shape)
