"""The same attention a few query rows at a time, so that memory grows with n and not with n times m.

A band is `b` query rows against the keys that they may see: small enough to stay in the processor's cache between the
product, the softmax, the reducers that read it and the product with the values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attn_cli.arrays import Array, indices, namespace, raised
from attn_cli.kernel.rule import Rule
from attn_cli.kernel.softmax import softmax, softmax_into

BAND_BYTES = 4 * 2**20  # about what stays in a core's cache next to k and v; measured, not critical within a factor 4


@dataclass(frozen=True)
class Band:
    """Query rows start:stop against keys first:last; every key outside is blocked for all of these rows.

    weights `[h, b, c]` with c = last - first; scores `[h, b, c]` (-inf where blocked) or None when nobody asked;
    output `[h, b, e]`. Do not keep any of them: the memory is used again.
    """

    start: int
    stop: int
    first: int
    last: int
    weights: Array
    scores: Array | None
    output: Array


def band_height(heads: int, keys: int) -> int:
    """How many query rows make a band of about `BAND_BYTES` of float32 weights; at least 8, at most 256."""
    return max(8, min(256, BAND_BYTES // max(1, 4 * heads * keys)))


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
    q, k, v = raised(q), raised(k), raised(v)
    xp = namespace(q)
    h, n, d = q.shape
    g, m, _ = k.shape
    keys_across = xp.matrix_transpose(k)
    step = height or band_height(h, m)
    for start, stop in runs(range(n) if rows is None else rows, step):
        span = rule.mask.span(start, stop, m)
        queries = q[:, start:stop, :] * rule.scale  # here and not on the products: b x d numbers instead of b x m
        b, c = stop - start, span.last - span.first
        # Grouped heads share their keys: put a group's queries under each other, one product per key head.
        grouped = xp.reshape(queries, (g, (h // g) * b, d))
        products = xp.reshape(grouped @ keys_across[:, :, span.first : span.last], (h, b, c))
        scores = rule.capped(products)
        bias = rule.bias_of(start, stop, span.first, span.last)
        if bias is not None:
            scores = scores + raised(bias)
        for left, right in ((span.first, span.open_first), (span.open_last, span.last)):
            if right > left:
                block(scores, rule, (start, stop), (left, right), span.first)
        weights = softmax(scores, rule.sink) if want_scores else softmax_into(scores, rule.sink)
        gathered = xp.reshape(weights, (g, (h // g) * b, c))
        output = xp.reshape(gathered @ v[:, span.first : span.last, :], (h, b, v.shape[-1]))
        yield Band(start, stop, span.first, span.last, weights, scores if want_scores else None, output)


def block(scores: Array, rule: Rule, rows: tuple[int, int], keys: tuple[int, int], first: int) -> None:
    """Set the blocked cells of queries rows[0]:rows[1] and keys keys[0]:keys[1] to -inf, in place."""
    xp = namespace(scores)
    i = indices(*rows, scores)[:, None]
    j = indices(*keys, scores)[None, :]
    part = scores[..., keys[0] - first : keys[1] - first]
    allowed = rule.mask.allowed(i, j)
    scores[..., keys[0] - first : keys[1] - first] = xp.where(allowed, part, xp.full_like(part, -float("inf")))
