"""The usual mistakes with rotary positions, made on purpose: each turns q and k otherwise than was asked."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.positions import BASE, Rotation
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.lessons.mistakes import Slip

_BASES = (BASE, 500_000.0, 1_000_000.0)  # of the paper and most models; of Llama 3; of Qwen 2 and later


def rotary_slips(q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule, rotation: Rotation | None) -> Iterator[Slip]:
    """Every mistake that is possible; q `[h, n, d]`, k `[g, m, d]` as they were turned by `rotation` (None: not)."""
    if q.shape[-1] % 2:
        return
    pairs = _unasked(q, k) if rotation is None else _otherwise(q, k, rotation)
    for words, wrong_q, wrong_k in pairs:
        found = attend(wrong_q, wrong_k, v, rule)
        yield Slip(words, found.weights, found.output)


Turned = tuple[str, np.ndarray, np.ndarray]


def _unasked(q: np.ndarray, k: np.ndarray) -> Iterator[Turned]:
    """Positions that nobody asked for."""
    past = k.shape[-2] - q.shape[-2]
    for interleaved in (False, True)[: 1 + (q.shape[-1] > 2)]:
        for offset in sorted({0, max(past, 0)}):
            turn = Rotation(BASE, interleaved, offset)
            words = f"rotary positions were applied that nobody asked for ({_layout(turn)}, base {BASE:,.0f})"
            yield words, turn.turn(q, offset), turn.turn(k)


def _otherwise(q: np.ndarray, k: np.ndarray, asked: Rotation) -> Iterator[Turned]:
    """Positions told in another way than was asked, or not at all."""
    offset = asked.offset
    plain_q, plain_k = asked.turn(q, offset, times=-1), asked.turn(k, times=-1)
    yield "q and k were not rotated: rotary positions are missing", plain_q, plain_k
    yield "k was not rotated", q, plain_k
    yield "q was not rotated", plain_q, k
    yield "q and k were rotated twice", asked.turn(q, offset), asked.turn(k)
    backwards = "q and k were rotated the other way: the sine has the wrong sign"
    yield backwards, asked.turn(plain_q, offset, times=-1), asked.turn(plain_k, times=-1)
    if offset:
        yield f"the first query was put at position 0, not {offset}", asked.turn(plain_q), k
    elif k.shape[-2] > q.shape[-2]:
        last = k.shape[-2] - q.shape[-2]
        yield f"the first query was put at position {last}, not 0", asked.turn(plain_q, last), k
    layouts = (asked.interleaved, not asked.interleaved)[: 1 + (q.shape[-1] > 2)]  # of two columns there is one pair
    for interleaved, base in product(layouts, dict.fromkeys((asked.base, *_BASES))):
        other = asked._replace(interleaved=interleaved, base=base)
        if other == asked:
            continue
        words = []
        if other.interleaved != asked.interleaved:
            words.append(f"the rotated pairs are {_layout(other)}, {_layout(asked)} were asked for")
        if other.base != asked.base:
            words.append(f"the base of rotary positions is {other.base:,.0f}, {asked.base:,.0f} was asked for")
        yield "; and ".join(words), other.turn(plain_q, offset), other.turn(plain_k)


def _layout(rotation: Rotation) -> str:
    return "columns 2i and 2i + 1" if rotation.interleaved else "columns i and i + d/2"
