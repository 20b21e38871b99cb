"""Mistakes of kernels that walk through the keys in tiles, with a maximum and a sum that follow (flash attention)."""

from collections.abc import Iterator

import numpy as np

from attn_cli.kernel.definition.masks import Open
from attn_cli.kernel.definition.softmax import softmax
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Problem

TILES = (16, 32, 64, 128, 256)  # keys of a tile in usual kernels


def tile_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Every mistake that is possible with so many keys."""
    rule, m = problem.rule, problem.k.shape[-2]
    if not rule.softmax or rule.sink is not None:
        return
    for tile in (size for size in TILES if size < m):
        yield from _not_rescaled(problem, tile)
    for left in sorted({m % tile or tile for tile in TILES if tile < m}):
        yield from _left_out(problem, left)
    if isinstance(rule.mask, Open):
        for pads in sorted({tile - m % tile for tile in TILES if m % tile}):
            yield _padded(problem, pads)


def _not_rescaled(problem: Problem, tile: int) -> Iterator[Mistake]:
    """Sums that keep the maximum of the tile in which they were added."""
    scores = problem.right.scores
    so_far = np.maximum.accumulate(np.maximum.reduceat(scores, np.arange(0, scores.shape[-1], tile), axis=-1), axis=-1)
    so_far = np.where(np.isfinite(so_far), so_far, 0.0)
    early = np.exp(scores - np.repeat(so_far, tile, axis=-1)[..., : scores.shape[-1]])  # as added, tile by tile
    late = np.exp(scores - so_far[..., -1:])
    sums = {name: _not_zero(parts.sum(axis=-1, keepdims=True)) for name, parts in (("early", early), ("late", late))}
    when = f"when the maximum rises (tiles of {tile} keys)"
    yield problem.mixed("accumulator-not-rescaled", f"the accumulator is not rescaled {when}", early / sums["late"])
    yield problem.mixed("nothing-rescaled", f"neither the accumulator nor the sum is rescaled {when}",
                        early / sums["early"])  # fmt: skip
    yield problem.mixed("sum-not-rescaled", f"the sum of the softmax is not rescaled {when}", late / sums["early"])


def _left_out(problem: Problem, left: int) -> Iterator[Mistake]:
    """The last keys are not there, or their products are not."""
    scores, weights = problem.right.scores, problem.right.weights
    kept = np.arange(scores.shape[-1]) < scores.shape[-1] - left
    words = "the last key was" if left == 1 else f"the last {left} keys, a tile, were"
    yield problem.mixed("last-keys-left-out", f"{words} left out", softmax(np.where(kept, scores, -np.inf)))
    yield problem.mixed("last-values-left-out", f"{words} counted in the softmax, but not added to the output",
                        np.where(kept, weights, 0.0))  # fmt: skip


def _padded(problem: Problem, pads: int) -> Mistake:
    """Zeros that fill the last tile of keys take part in the softmax."""
    scores = problem.right.scores
    top = np.maximum(scores.max(axis=-1, keepdims=True), 0.0)
    powers = np.exp(scores - top)
    weights = powers / (powers.sum(axis=-1, keepdims=True) + pads * np.exp(-top))
    words = "the zero key" if pads == 1 else f"the {pads} zero keys"
    return problem.mixed("padding-not-masked", f"{words} that fill the last tile took part in the softmax", weights)


def _not_zero(sums: np.ndarray) -> np.ndarray:
    return np.where(sums > 0, sums, 1.0)
