"""The usual mistakes with rotary positions, made on purpose: each rotates q and k in another way than the right one."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from attn_cli.kernel.definition.positions import BASE, Rotation
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Operands, Problem, attending

_BASES = (BASE, 500_000.0, 1_000_000.0)  # of the paper and most models; of Llama 3; of Qwen 2 and later

_Pair = Callable[[], tuple[np.ndarray, np.ndarray]]  # makes q and k


def rotary_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong implementations of rotary positions: missing, with other pairs or angles, of queries or keys alone ..."""
    q, k, rotation = problem.q, problem.k, problem.rotation
    if q.shape[-1] % 2:
        return
    found = _superfluous(q, k) if rotation is None else _wrong(q, k, rotation)
    for words, pair in found:
        yield attending(words, partial(_operands, problem, pair))


def _operands(problem: Problem, pair: _Pair) -> Operands:
    return (*pair(), problem.v, problem.rule)


def _superfluous(q: np.ndarray, k: np.ndarray) -> Iterator[tuple[str, _Pair]]:
    past = k.shape[-2] - q.shape[-2]
    for interleaved in (False, True)[: 1 + (q.shape[-1] > 2)]:
        for offset in sorted({0, max(past, 0)}):
            turn = Rotation(BASE, interleaved, offset)
            words = f"rotary positions were applied without being requested ({_layout(turn)}, base {BASE:,.0f})"
            yield words, partial(_turned, turn, q, k, offset)


def _turned(turn: Rotation, q: np.ndarray, k: np.ndarray, q_from: int) -> tuple[Any, Any]:
    return turn.turn(q, q_from), turn.turn(k)


def _wrong(q: np.ndarray, k: np.ndarray, right: Rotation) -> Iterator[tuple[str, _Pair]]:
    offset = right.offset
    plain_q, plain_k = right.turn(q, offset, times=-1), right.turn(k, times=-1)
    yield "q and k were not rotated: rotary positions are missing", lambda: (plain_q, plain_k)
    yield "k was not rotated", lambda: (q, plain_k)
    yield "q was not rotated", lambda: (plain_q, k)
    yield "q and k were rotated twice", partial(_turned, right, q, k, offset)
    backwards = "q and k were rotated the other way: the sine has the wrong sign"
    yield backwards, lambda: (right.turn(plain_q, offset, times=-1), right.turn(plain_k, times=-1))
    if offset:
        yield f"the first query was put at position 0, not {offset}", lambda: (right.turn(plain_q), k)
    elif k.shape[-2] > q.shape[-2]:
        last = k.shape[-2] - q.shape[-2]
        yield f"the first query was put at position {last}, not 0", lambda: (right.turn(plain_q, last), k)
    for step, side in ((1, "further on"), (-1, "further back")):
        words = f"keys are rotated one place {side} than queries: key {max(-step, 0)} as at position {max(step, 0)}"
        yield words, partial(lambda by: (q, right.turn(plain_k, by)), step)
    if q.shape[-1] % 4 == 0:
        words = "only the first half of the columns was rotated, with the angles of heads half as wide"
        yield words, lambda: (_half(right, plain_q, offset), _half(right, plain_k))
        other_way = right._replace(interleaved=not right.interleaved)
        words = f"cos and sin stand as for pairs of {_layout(other_way)}, and the pairs are {_layout(right)}"
        yield words, lambda: (_crossed(right, plain_q, offset), _crossed(right, plain_k))
    layouts = (right.interleaved, not right.interleaved)[: 1 + (q.shape[-1] > 2)]  # of two columns there is one pair
    for interleaved, base in product(layouts, dict.fromkeys((right.base, *_BASES, right.base**0.5, right.base**2))):
        other = right._replace(interleaved=interleaved, base=base)
        if other == right:
            continue
        parts = []
        if other.interleaved != right.interleaved:
            parts.append(f"the rotated pairs are {_layout(other)}, {_layout(right)} were asked for")
        if other.base != right.base:
            parts.append(f"the base of rotary positions is {other.base:,.0f}, {right.base:,.0f} was asked for")
        yield "; and ".join(parts), partial(_turned, other, plain_q, plain_k, offset)


def _half(right: Rotation, x: np.ndarray, offset: int = 0) -> np.ndarray:
    half = x.shape[-1] // 2
    return np.concatenate((right.turn(x[..., :half], offset), x[..., half:]), axis=-1)


def _crossed(right: Rotation, x: np.ndarray, offset: int = 0) -> np.ndarray:
    """x turned in the right pairs of columns, by cos and sin that stand in the columns of the other layout."""
    d = x.shape[-1]
    halves, neighbours = (slice(d // 2), slice(d // 2, d)), (slice(0, d, 2), slice(1, d, 2))
    own, other = (neighbours, halves) if right.interleaved else (halves, neighbours)
    unit, cos, sin, across = (np.zeros_like(x) for _ in range(4))
    unit[..., other[0]] = 1.0
    unit = right._replace(interleaved=not right.interleaved).turn(unit, offset)
    for columns in other:
        cos[..., columns], sin[..., columns] = unit[..., other[0]], unit[..., other[1]]
    across[..., own[0]], across[..., own[1]] = -x[..., own[1]], x[..., own[0]]
    return x * cos + across * sin


def _layout(rotation: Rotation) -> str:
    return "columns 2i and 2i + 1" if rotation.interleaved else "columns i and i + d/2"
