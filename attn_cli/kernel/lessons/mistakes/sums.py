"""Sums over keys that are kept in the precision of the numbers instead of float32: each addition is rounded."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np

from attn_cli.kernel.lessons.mistakes.problem import Made, Mistake, Problem
from attn_cli.kernel.lessons.precision import PRECISIONS, Precision

_PRECISIONS = (PRECISIONS["bfloat16"], PRECISIONS["float16"])
_TILES = (1, 16, 32, 64, 128)  # keys that are added at once
_KEPT = {"": (True, True), " of the output": (True, False), " of the softmax": (False, True)}


def sum_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong implementations that keep sums of output or softmax in bfloat16 or float16 while tiles of keys are added.

    Both sums or one; with the maximum of all keys, and with one that follows tile by tile. Not every digit of such a
    sum can be foretold, for its order is not known; most of its error can. No mistake without a softmax, or with a
    learned sink.
    """
    m = problem.k.shape[-2]
    if not problem.rule.softmax or problem.rule.sink is not None:
        return
    for precision, tile, online in product(_PRECISIONS, _TILES, (False, True)):
        if tile < m:
            for which, kept in _KEPT.items():
                words = f"the sums{which} were kept in {precision.name}, they need float32"
                output = partial(_added, problem, precision, tile, online=online, kept=kept)
                yield Mistake("sums-rounded", words, partial(_made, problem, output))


def _made(problem: Problem, output: Callable[[], np.ndarray]) -> Made:
    return Made(problem.right.weights, output())


def _added(problem: Problem, precision: Precision, tile: int, *, online: bool, kept: tuple[bool, bool]) -> np.ndarray:
    """The output `[h, n, e]`, added tile by tile.

    online  whether the maximum is that of the keys so far, and the sums are rescaled when it rises
    kept    whether the output's sum, and that of the softmax, are rounded
    """
    scores, values = problem.right.scores, problem.values
    rounded = [precision.rounded if is_kept else np.asarray for is_kept in kept]
    output = np.zeros(problem.right.output.shape)
    total = np.zeros((*scores.shape[:-1], 1))
    top = np.full(total.shape, -np.inf) if online else scores.max(axis=-1, keepdims=True)
    for start in range(0, scores.shape[-1], tile):
        part = scores[..., start : start + tile]
        rising = np.maximum(top, part.max(axis=-1, keepdims=True)) if online else top
        shift = np.where(np.isfinite(rising), rising, 0.0)
        begun = np.isfinite(top)
        fading = np.where(begun, np.exp(np.where(begun, top, shift) - shift), 0.0)
        powers = np.exp(part - shift)
        output = rounded[0](output * fading + powers @ values[..., start : start + tile, :])
        total = rounded[1](total * fading + powers.sum(axis=-1, keepdims=True))
        top = rising
    return np.asarray(output / np.where(total > 0, total, 1.0))
