"""Mistakes of kernels that walk through the keys in tiles, with a maximum and a sum that follow (flash attention)."""

from collections.abc import Iterator
from functools import cached_property, partial

import numpy as np

from attn_cli.kernel.definition.masks import Open
from attn_cli.kernel.definition.softmax import softmax
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Problem

_TILES = (4, 8, 16, 32, 64, 128, 256)  # keys of a tile in usual kernels, and in those for small matrices
_MOST_TILES = 128


def tiles_of(m: int) -> list[int]:
    """How many keys a tile may have where there are m keys."""
    return [tile for tile in _TILES if tile < m <= tile * _MOST_TILES]


def tile_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong flash kernels: sums not rescaled as the maximum rises, last keys left out, padding taken in."""
    rule, m = problem.rule, problem.k.shape[-2]
    if not rule.softmax or rule.sink is not None:
        return
    tiles = tiles_of(m)
    for tile in tiles:
        yield from _not_rescaled(problem, tile)
    n = problem.q.shape[-2]
    for left in sorted({1, *(m % tile or tile for tile in tiles), *({n} if n < m else {})}):
        if left < m:
            yield from _left_out(problem, left)
    for tile in tiles:
        words = f"the first {tile} keys, a tile, were left out"
        yield problem.mixed(words, partial(_without, problem, np.arange(m) >= tile))
    if isinstance(rule.mask, Open):
        for pads in sorted({tile - m % tile for tile in _TILES if m % tile}):
            yield _padded(problem, pads)


def _not_rescaled(problem: Problem, tile: int) -> Iterator[Mistake]:
    parts = _Parts(problem, tile)
    when = f"when the maximum rises (tiles of {tile} keys)"
    yield problem.mixed(f"the accumulator is not rescaled {when}", lambda: parts.early / _sum(parts.late))
    words = f"neither the accumulator nor the sum is rescaled {when}"
    yield problem.mixed(words, lambda: parts.early / _sum(parts.early))
    yield problem.mixed(f"the sum of the softmax is not rescaled {when}", lambda: parts.late / _sum(parts.early))
    words = f"accumulator and sum are rescaled by the inverse factor {when}: e^(new - old) for e^(old - new)"
    yield problem.mixed(words, lambda: parts.inverse / _sum(parts.inverse))
    words = f"each tile of {tile} keys is divided by its own sum, not all by the sum of all"
    yield problem.mixed(words, lambda: parts.early / parts.sums_of_tiles)


class _Parts:
    """The exponentials of scores less the maximum: of the tiles so far (`early`), or of all (`late`) `[h, n, m]`."""

    def __init__(self, problem: Problem, tile: int) -> None:
        self.problem, self.tile = problem, tile

    @cached_property
    def so_far(self) -> np.ndarray:
        scores = self.problem.right.scores
        of_tiles = np.maximum.reduceat(scores, np.arange(0, scores.shape[-1], self.tile), axis=-1)
        so_far = np.maximum.accumulate(of_tiles, axis=-1)
        return np.where(np.isfinite(so_far), so_far, 0.0)

    @cached_property
    def early(self) -> np.ndarray:
        scores = self.problem.right.scores
        return np.exp(scores - self._of_keys(self.so_far))

    @property
    def inverse(self) -> np.ndarray:
        """The exponentials of tiles, multiplied where they must be divided as the maximum rises `[h, n, m]`."""
        factor = np.exp(self.so_far[..., -1:] - self.so_far)
        return self.early * self._of_keys(factor)

    @property
    def sums_of_tiles(self) -> np.ndarray:
        """The sum of the exponentials in each key's tile `[h, n, m]`; 1 where all of it is masked."""
        sums = np.add.reduceat(self.early, np.arange(0, self.early.shape[-1], self.tile), axis=-1)
        return self._of_keys(np.where(sums > 0, sums, 1.0))

    def _of_keys(self, of_tiles: np.ndarray) -> np.ndarray:
        return np.repeat(of_tiles, self.tile, axis=-1)[..., : self.problem.k.shape[-2]]

    @cached_property
    def late(self) -> np.ndarray:
        return np.exp(self.problem.right.scores - self.so_far[..., -1:])


def _left_out(problem: Problem, left: int) -> Iterator[Mistake]:
    m = problem.k.shape[-2]
    kept = np.arange(m) < m - left
    words = "the last key was" if left == 1 else f"the last {left} keys were"
    yield problem.mixed(f"{words} left out", partial(_without, problem, kept))
    words += " counted in the softmax, but not added to the output"
    yield problem.mixed(words, lambda: np.where(kept, problem.right.weights, 0.0))


def _without(problem: Problem, kept: np.ndarray) -> np.ndarray:
    return np.asarray(softmax(np.where(kept, problem.right.scores, -np.inf)))


def _padded(problem: Problem, pads: int) -> Mistake:
    def weights() -> np.ndarray:
        scores = problem.right.scores
        top = np.maximum(scores.max(axis=-1, keepdims=True), 0.0)
        powers = np.exp(scores - top)
        return np.asarray(powers / (powers.sum(axis=-1, keepdims=True) + pads * np.exp(-top)))

    words = "the zero key" if pads == 1 else f"the {pads} zero keys"
    return problem.mixed(f"{words} that fill the last tile took part in the softmax", weights)


def _sum(parts: np.ndarray) -> np.ndarray:
    sums = parts.sum(axis=-1, keepdims=True)
    return np.where(sums > 0, sums, 1.0)
