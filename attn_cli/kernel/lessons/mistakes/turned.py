"""Mistakes with the rotary positions of a model, whose pairs and angles were read off its numbers."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from attn_cli.kernel.definition.positions import Turning
from attn_cli.kernel.lessons.mistakes.problem import OtherAngles, Problem

WrongPair = tuple[str, str, Callable[[], tuple[np.ndarray, np.ndarray]]]  # name, words, and what makes q and k


class _Turn(NamedTuple):
    """A rotation: the columns of every pair, cos and sin `[m, pairs]`."""

    first: Sequence[int]
    second: Sequence[int]
    cos: np.ndarray
    sin: np.ndarray

    def of(self, x: np.ndarray) -> np.ndarray:
        """x `[h, n, d]`, which stands at the last positions, turned."""
        start = len(self.cos) - x.shape[-2]
        cos, sin = self.cos[start:].astype(x.dtype), self.sin[start:].astype(x.dtype)
        one, other = x[..., self.first], x[..., self.second]
        turned = x.copy()
        turned[..., self.first] = one * cos - other * sin
        turned[..., self.second] = one * sin + other * cos
        return turned

    def back(self) -> "_Turn":
        square = self.cos**2 + self.sin**2
        return self._replace(cos=self.cos / square, sin=-self.sin / square)


def turned_mistakes(problem: Problem, turning: Turning) -> Iterator[WrongPair]:
    """Wrong implementations of rotary positions with these pairs of columns and angles; none where nothing is
    turned.
    """
    if not turning.first:
        return
    q, k = problem.q, problem.k
    cos, sin = np.asarray(turning.cos, np.float64), np.asarray(turning.sin, np.float64)
    right = _Turn(list(turning.first), list(turning.second), cos, sin)
    undo = right.back()

    def plain() -> tuple[np.ndarray, np.ndarray]:
        return undo.of(q), undo.of(k)

    def by(turn: _Turn) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
        def make() -> tuple[np.ndarray, np.ndarray]:
            one, other = plain()
            return turn.of(one), turn.of(other)

        return make

    yield "rotary-missing", "q and k were not rotated: rotary positions are missing", plain
    other = _other_pairs(right)
    if other is not None:
        asked, made = ("halves", "columns 2i and 2i + 1") if "halves" in turning.layout else (
            "columns 2i and 2i + 1", "halves: columns i and i + d/2")  # fmt: skip
        yield "rotary-pairs", f"the rotated pairs are {made}, the model's are {asked}", by(other)
    for name, words, frequencies, factor in problem.other_angles:
        pairs = len(frequencies)
        columns = None if pairs == cos.shape[1] else _columns(right, pairs, turning.layout, q.shape[-1])
        if columns is not None:
            yield name, words, by(_Turn(*columns, *_tables(len(cos), frequencies, factor)))
    for name, words, wrong_cos, wrong_sin in wrong_tables(cos, sin, problem.other_angles):
        yield name, words, by(right._replace(cos=wrong_cos, sin=wrong_sin))
    yield "rotary-of-queries-alone", "k was not rotated", lambda: (q, undo.of(k))
    yield "rotary-of-keys-alone", "q was not rotated", lambda: (undo.of(q), k)
    yield "rotary-twice", "q and k were rotated twice", lambda: (right.of(q), right.of(k))


def wrong_tables(
    cos: np.ndarray, sin: np.ndarray, other_angles: Sequence[OtherAngles]
) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Every usual mistake in the cos and sin `[m, pairs]` of rotary positions: name, sentence, wrong cos, wrong sin."""
    size = float(np.sqrt(cos[0] ** 2 + sin[0] ** 2).mean())
    is_sized = abs(size - 1) > 1e-4
    for name, words, frequencies, factor in other_angles:
        if len(frequencies) == cos.shape[1]:
            for by in (factor, size)[: 1 + (is_sized and factor == 1)]:  # the model's factor is left out, too, or kept
                wrong_cos, wrong_sin = _tables(len(cos), frequencies, by)
                if not np.allclose(wrong_cos, cos, atol=1e-6):
                    kept = "" if by == factor else f", with the attention factor {size:.4g}"
                    yield name, f"{words}{kept}", wrong_cos, wrong_sin
    if is_sized:
        words = f"q and k were not rotated, and have the attention factor {size:.4g} of rotary positions"
        yield "rotary-missing", words, np.full_like(cos, size), np.zeros_like(sin)
        yield ("rotary-factor-missing", f"the attention factor {size:.4g} on cos and sin is missing",
               cos / size, sin / size)  # fmt: skip
        yield ("rotary-factor-twice", f"the attention factor {size:.4g} was applied twice", cos * size, sin * size)
    yield "rotary-backwards", "q and k were rotated the other way: the sine has the wrong sign", cos, -sin
    if len(cos) > 1:
        step = (cos[1:2] + 1j * sin[1:2]) / (cos[:1] + 1j * sin[:1])  # from one position to the next
        for by_steps, words in (
            (1, "positions count from 1, the model's from 0"),
            (-1, "positions are one too small: the first is -1"),
            (2, "positions are two too large: the first is 2, as by padding"),
        ):
            moved = (cos + 1j * sin) * step**by_steps
            yield f"rotary-positions{by_steps:+}", words, moved.real, moved.imag
    if len(cos) > 3:
        half = (len(cos) + 1) // 2
        again = np.concatenate([np.arange(half), np.arange(len(cos) - half)])
        words = f"positions start again in the middle of the text, at token {half}"
        yield "rotary-restarted", words, cos[again], sin[again]


def _tables(count: int, frequencies: np.ndarray, factor: float) -> tuple[np.ndarray, np.ndarray]:
    angles = np.arange(count)[:, None] * np.asarray(frequencies)[None]
    return factor * np.cos(angles), factor * np.sin(angles)


def _other_pairs(turn: _Turn) -> _Turn | None:
    """The columns of rotary pairs in the other layout, halves or neighbours; None for a single pair."""
    columns = sorted([*turn.first, *turn.second])
    half = len(columns) // 2
    if half < 2:
        return None
    is_halves = sorted(turn.first) == columns[:half]
    first, second = (columns[::2], columns[1::2]) if is_halves else (columns[:half], columns[half:])
    return turn._replace(first=first, second=second)


def _columns(turn: _Turn, pairs: int, layout: str, d: int) -> tuple[list[int], list[int]] | None:
    """The columns of so many pairs in the layout; None where a head has too few."""
    start, width = min(*turn.first, *turn.second), 2 * pairs
    start = 0 if start + width > d else start
    if start + width > d:
        return None
    columns = list(range(start, start + width))
    return (columns[:pairs], columns[pairs:]) if "halves" in layout else (columns[::2], columns[1::2])
