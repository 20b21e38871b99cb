"""Mistakes in what attention is made of: q, k, v, their heads, the cache's keys, rotary positions."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations, product
from typing import TypeAlias

import numpy as np

from attn_cli.kernel.definition.heads import join_heads, split_heads
from attn_cli.kernel.definition.positions import BASE, Rotation
from attn_cli.kernel.lessons.mistakes.problem import Made, Mistake, Problem, made

_BASES = (BASE, 500_000.0, 1_000_000.0)  # of the paper and most models; of Llama 3; of Qwen 2 and later

_Pair: TypeAlias = Callable[[], tuple[np.ndarray, np.ndarray]]
"""Makes q and k."""


def head_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Key heads shared wrongly, heads cut or joined by a reshape."""
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    h, g, n, e = len(q), len(k), q.shape[-2], v.shape[-1]
    if 1 < g < h:
        words = f"grouped key heads were tiled instead of repeated: head i read key head i mod {g}"
        yield words, lambda: made(q, np.tile(k, (h // g, 1, 1)), np.tile(v, (h // g, 1, 1)), rule)
    if 1 < g <= h:
        yield "every head read key head 0", lambda: made(q, k[:1], v[:1], rule)
    if h == 1:
        return

    def joined(of: Made) -> Made:
        return Made(of.weights, np.asarray(split_heads(of.output.reshape(n, h * e), h)))

    cut = made(*problem.before_rotary(_recut), _recut(v), rule)
    yield "heads were cut by a reshape alone: [n, h * d] to [h, n, d] without moving the axis", lambda: cut
    words = "heads were cut and joined by a reshape alone: a transpose is missing on both sides"
    yield words, lambda: joined(cut)
    words = "heads were joined by a reshape alone: [h, n, e] to [n, h * e] without moving the axis"
    yield words, lambda: joined(made(q, k, v, rule))


def _recut(x: np.ndarray) -> np.ndarray:
    return np.asarray(join_heads(x).reshape(x.shape))


def operand_mistakes(problem: Problem) -> Iterator[Mistake]:
    """q, k and v in another order; k or v reshaped, or one place off; the new keys before those of the cache."""
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    (n, d), (m, e) = q.shape[-2:], v.shape[-2:]
    if k.shape == v.shape and not np.array_equal(k, v):
        yield "k was used in place of v", lambda: made(q, k, k, rule)
        yield "v was used in place of k", lambda: made(q, v, v, rule)
        yield "k and v are in each other's place", lambda: made(q, v, k, rule)
    if q.shape == k.shape == v.shape:
        named = {"q": q, "k": k, "v": v}
        for a, b, c in (order for order in permutations("qkv") if order[0] != "q"):
            words = f"q, k and v are in another order: {a}, {b}, {c} were taken for them"
            yield words, partial(made, named[a], named[b], named[c], rule)
    if min(m, d) > 1:
        reshaped = k.reshape(len(k), d, m).swapaxes(-1, -2)
        yield "k was reshaped where it must be transposed", lambda: made(q, reshaped, v, rule)
    if min(m, e) > 1:
        values = v.reshape(len(v), e, m).swapaxes(-1, -2)
        yield "v was reshaped where it must be transposed", lambda: made(q, k, values, rule)
    if m > 1:
        for step, words, other in ((1, "one place too late", "j - 1"), (-1, "one place too early", "j + 1")):
            keys, values = np.roll(k, step, -2), np.roll(v, step, -2)
            yield f"keys stand {words}: key j holds key {other}", partial(made, q, keys, v, rule)
            yield f"values stand {words}: value j holds value {other}", partial(made, q, k, values, rule)
    if n < m:
        words = f"the {n} new keys stand before those of the cache, they come after them"
        yield words, lambda: made(q, np.roll(k, n, -2), np.roll(v, n, -2), rule)


def rotary_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Rotary positions missing, unasked, with other pairs or angles, of queries or keys alone."""
    q, k, rotation = problem.q, problem.k, problem.rotation
    if q.shape[-1] % 2 == 0:
        for words, pair in _unasked(q, k) if rotation is None else _wrong(q, k, rotation):
            yield words, partial(made, *pair(), problem.v, problem.rule)


def _unasked(q: np.ndarray, k: np.ndarray) -> Iterator[tuple[str, _Pair]]:
    past = max(k.shape[-2] - q.shape[-2], 0)
    for interleaved, offset in product((False, True)[: 1 + (q.shape[-1] > 2)], sorted({0, past})):
        turn = Rotation(BASE, interleaved, offset)
        words = f"rotary positions were applied without being requested ({_layout(turn)}, base {BASE:,.0f})"
        yield words, partial(turn.pair, q, k)


def _wrong(q: np.ndarray, k: np.ndarray, right: Rotation) -> Iterator[tuple[str, _Pair]]:
    offset, last = right.offset, k.shape[-2] - q.shape[-2]
    plain_q, plain_k = right.pair(q, k, -1)
    yield "q and k were not rotated: rotary positions are missing", lambda: (plain_q, plain_k)
    yield "k was not rotated", lambda: (q, plain_k)
    yield "q was not rotated", lambda: (plain_q, k)
    yield "q and k were rotated twice", partial(right.pair, q, k)
    words = "q and k were rotated the other way: the sine has the wrong sign"
    yield words, partial(right.pair, plain_q, plain_k, -1)
    place = 0 if offset else last
    if place != offset:
        yield f"the first query was put at position {place}, not {offset}", lambda: (right.turn(plain_q, place), k)
    for step, side in ((1, "further on"), (-1, "further back")):
        words = f"keys are rotated one place {side} than queries: key {max(-step, 0)} as at position {max(step, 0)}"
        yield words, partial(lambda by: (q, right.turn(plain_k, by)), step)
    layouts = (right.interleaved, not right.interleaved)[: 1 + (q.shape[-1] > 2)]  # of two columns there is one pair
    for interleaved, base in product(layouts, dict.fromkeys((right.base, *_BASES, right.base**0.5, right.base**2))):
        other_way = right._replace(interleaved=interleaved, base=base)
        parts = []
        if interleaved != right.interleaved:
            parts.append(f"the rotated pairs are {_layout(other_way)}, {_layout(right)} were asked for")
        if base != right.base:
            parts.append(f"the base of rotary positions is {base:,.0f}, {right.base:,.0f} was asked for")
        if parts:
            yield "; and ".join(parts), partial(other_way.pair, plain_q, plain_k)


def _layout(rotation: Rotation) -> str:
    return "columns 2i and 2i + 1" if rotation.interleaved else "columns i and i + d/2"
