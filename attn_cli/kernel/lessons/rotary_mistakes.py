"""The usual mistakes with rotary positions, made on purpose: each rotates q and k in another way than the right one."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.positions import BASE, Rotation
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.lessons.mistakes import Mistake

_BASES = (BASE, 500_000.0, 1_000_000.0)  # of the paper and most models; of Llama 3; of Qwen 2 and later


def rotary_mistakes(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule, rotation: Rotation | None
) -> Iterator[Mistake]:
    """Every mistake that is possible; q `[h, n, d]`, k `[g, m, d]` as rotated by `rotation`, None: not rotated."""
    if q.shape[-1] % 2:
        return
    pairs = _superfluous(q, k) if rotation is None else _wrong(q, k, rotation)
    for words, wrong_q, wrong_k in pairs:
        attention = attend(wrong_q, wrong_k, v, rule)
        yield Mistake(words, attention.weights, attention.output)


WrongOperands = tuple[str, np.ndarray, np.ndarray]  # the mistake, q, k


def _superfluous(q: np.ndarray, k: np.ndarray) -> Iterator[WrongOperands]:
    """Rotations where there should be none."""
    past = k.shape[-2] - q.shape[-2]
    for interleaved in (False, True)[: 1 + (q.shape[-1] > 2)]:
        for offset in sorted({0, max(past, 0)}):
            turn = Rotation(BASE, interleaved, offset)
            words = f"rotary positions were applied without being requested ({_layout(turn)}, base {BASE:,.0f})"
            yield words, turn.turn(q, offset), turn.turn(k)


def _wrong(q: np.ndarray, k: np.ndarray, right: Rotation) -> Iterator[WrongOperands]:
    """Another rotation than the right one, or none."""
    offset = right.offset
    plain_q, plain_k = right.turn(q, offset, times=-1), right.turn(k, times=-1)
    yield "q and k were not rotated: rotary positions are missing", plain_q, plain_k
    yield "k was not rotated", q, plain_k
    yield "q was not rotated", plain_q, k
    yield "q and k were rotated twice", right.turn(q, offset), right.turn(k)
    backwards = "q and k were rotated the other way: the sine has the wrong sign"
    yield backwards, right.turn(plain_q, offset, times=-1), right.turn(plain_k, times=-1)
    if offset:
        yield f"the first query was put at position 0, not {offset}", right.turn(plain_q), k
    elif k.shape[-2] > q.shape[-2]:
        last = k.shape[-2] - q.shape[-2]
        yield f"the first query was put at position {last}, not 0", right.turn(plain_q, last), k
    layouts = (right.interleaved, not right.interleaved)[: 1 + (q.shape[-1] > 2)]  # of two columns there is one pair
    for interleaved, base in product(layouts, dict.fromkeys((right.base, *_BASES))):
        other = right._replace(interleaved=interleaved, base=base)
        if other == right:
            continue
        words = []
        if other.interleaved != right.interleaved:
            words.append(f"the rotated pairs are {_layout(other)}, {_layout(right)} were asked for")
        if other.base != right.base:
            words.append(f"the base of rotary positions is {other.base:,.0f}, {right.base:,.0f} was asked for")
        yield "; and ".join(words), other.turn(plain_q, offset), other.turn(plain_k)


def _layout(rotation: Rotation) -> str:
    return "columns 2i and 2i + 1" if rotation.interleaved else "columns i and i + d/2"
