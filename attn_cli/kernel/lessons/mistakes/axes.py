"""A softmax over another axis, a mask in another place."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attn_cli.kernel.definition.dense import scores
from attn_cli.kernel.definition.masks import Open
from attn_cli.kernel.definition.softmax import softmax, unnormalised
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Problem


def axis_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong implementations: the softmax over queries or heads, the mask applied after it, masked scores set to 0."""
    rule = problem.rule
    if not rule.softmax:
        return
    yield problem.mixed("softmax-over-queries", "the softmax runs over the queries instead of the keys",
                        lambda: _softmax_over(problem.right.scores, -2))  # fmt: skip
    if len(problem.q) > 1:
        yield problem.mixed("softmax-over-heads", "the softmax runs over the heads instead of the keys",
                            lambda: _softmax_over(problem.right.scores, 0))  # fmt: skip
    if not isinstance(rule.mask, Open):
        yield problem.mixed("mask-after-softmax", "the mask was applied after the softmax: rows no longer add to 1",
                            lambda: _masked_after(problem))  # fmt: skip
        yield problem.mixed("masked-scores-0", "blocked scores were set to 0 instead of -inf",
                            lambda: _masked_to_0(problem))  # fmt: skip


def _masked_after(problem: Problem) -> np.ndarray:
    unmasked = softmax(scores(problem.q, problem.k, replace(problem.rule, mask=Open())), problem.rule.sink)
    return np.where(np.isneginf(problem.right.scores), 0, unmasked)


def _masked_to_0(problem: Problem) -> np.ndarray:
    right = problem.right.scores
    return np.asarray(softmax(np.where(np.isneginf(right), 0, unnormalised(right)), problem.rule.sink))


def _softmax_over(all_scores: np.ndarray, axis: int) -> np.ndarray:
    moved = np.moveaxis(all_scores, axis, -1)
    shaped = softmax(moved.reshape(1, -1, moved.shape[-1])).reshape(moved.shape)
    return np.moveaxis(shaped, -1, axis)
