"""Mistakes of kernels that walk through the keys in tiles, with a maximum and a sum that follow (flash attention)."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from attn_cli.kernel.definition.softmax import softmax
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Problem
from attn_cli.kernel.lessons.mistakes.rules import tiles_of


def tile_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Sums not rescaled as the maximum rises, keys left out at an end, padding taken in."""
    rule, n, m = problem.rule, problem.q.shape[-2], problem.k.shape[-2]
    if not rule.softmax or rule.sink is not None:
        return
    tiles, j = tiles_of(m), np.arange(m)
    for tile in tiles:
        yield from _not_rescaled(problem, tile)
        words = f"the first {tile} keys, a tile, were left out"
        yield problem.by_weights(words, partial(_of_keys, problem, j >= tile))
    for left in sorted({1, *(m % tile or tile for tile in tiles), *({n} if n < m else {})}):
        if left < m:
            words = "the last key was left out" if left == 1 else f"the last {left} keys were left out"
            yield problem.by_weights(words, partial(_of_keys, problem, j < m - left))
    if rule.mask.is_open:
        for pads in sorted({tile - m % tile for tile in tiles if m % tile}):
            words = "the zero key" if pads == 1 else f"the {pads} zero keys"
            words += " that fill the last tile took part in the softmax"
            yield problem.by_weights(words, partial(_padded, problem, pads))


def _not_rescaled(problem: Problem, tile: int) -> Iterator[Mistake]:
    def exponentials() -> tuple[np.ndarray, np.ndarray]:
        """e^(score - maximum), of the tiles so far and of all, `[h, n, m]`; divided and summed as in a right kernel."""
        scores = problem.right.scores
        of_tiles = np.maximum.reduceat(scores, np.arange(0, scores.shape[-1], tile), axis=-1)
        so_far = np.maximum.accumulate(of_tiles, axis=-1)
        so_far = np.where(np.isfinite(so_far), so_far, 0.0)
        early = np.exp(scores - np.repeat(so_far, tile, axis=-1)[..., : scores.shape[-1]])
        return early, np.exp(scores - so_far[..., -1:])

    def of_tile() -> np.ndarray:
        early, _ = exponentials()
        sums = np.add.reduceat(early, np.arange(0, early.shape[-1], tile), axis=-1)
        sums = np.repeat(np.where(sums > 0, sums, 1.0), tile, axis=-1)
        return early / sums[..., : early.shape[-1]]

    def divided(over: int, under: int) -> np.ndarray:
        parts = exponentials()
        sums = parts[under].sum(axis=-1, keepdims=True)
        return parts[over] / np.where(sums > 0, sums, 1.0)

    when = f"when the maximum rises (tiles of {tile} keys)"
    yield problem.by_weights(f"the accumulator is not rescaled {when}", partial(divided, 0, 1))
    yield problem.by_weights(f"neither the accumulator nor the sum is rescaled {when}", partial(divided, 0, 0))
    yield problem.by_weights(f"the sum of the softmax is not rescaled {when}", partial(divided, 1, 0))
    yield problem.by_weights(f"each tile of {tile} keys is divided by its own sum, not all by the sum of all", of_tile)


def _of_keys(problem: Problem, kept: np.ndarray) -> np.ndarray:
    return np.asarray(softmax(np.where(kept, problem.right.scores, -np.inf)))


def _padded(problem: Problem, pads: int) -> np.ndarray:
    top = np.maximum(problem.right.scores.max(axis=-1, keepdims=True), 0.0)
    powers = np.exp(problem.right.scores - top)
    return np.asarray(powers / (powers.sum(axis=-1, keepdims=True) + pads * np.exp(-top)))
