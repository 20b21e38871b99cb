"""The register of usual mistakes in attention kernels: each made on purpose, to know wrong numbers by their cause."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attn_cli.kernel.definition.dense import scores
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.kernel.lessons.mistakes.operands import head_mistakes, operand_mistakes, rotary_mistakes
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Problem
from attn_cli.kernel.lessons.mistakes.rules import rule_mistakes, softmax_mistakes, usual_masks
from attn_cli.kernel.lessons.mistakes.tiles import tile_mistakes

_HALF = 65504.0  # the largest float16
_POWERS = {"float32": 88.72, "float16": 11.09, "float64": 709.78}  # the largest x whose exponential they hold


def mistakes(problem: Problem) -> Iterator[Mistake]:
    """The usual mistakes of implementations of this attention, the more usual families first."""
    families = rule_mistakes, softmax_mistakes, head_mistakes, operand_mistakes, rotary_mistakes, tile_mistakes
    for family in families:
        yield from family(problem)


def why_nan(problem: Problem, rows: np.ndarray) -> str:
    """The likely reason why these rows `[h, n]` (heads joined: `[1, n]`) hold NaN or Inf; "" for none."""

    def exactly(cells: np.ndarray) -> bool:
        of_rows = cells if len(rows) == len(cells) else cells.any(axis=0, keepdims=True)
        return bool(of_rows.any() and (rows == of_rows).all())

    q, k, all_scores = problem.q, problem.k, problem.right.scores
    if exactly(np.asarray(np.isneginf(all_scores).all(axis=-1))):
        return "these rows are fully masked: the softmax of -inf alone is NaN, and they must be 0"
    for words, mask in usual_masks(problem):
        if exactly(np.asarray(np.isneginf(scores(q, k, replace(problem.rule, mask=mask))).all(axis=-1))):
            return f"{words}: these rows see no key, and the softmax of -inf alone is NaN"
    raw = np.abs(q @ np.swapaxes(expand_groups(k, len(q)), -1, -2)).max(axis=-1)
    if exactly(np.asarray(raw > _HALF)):
        return f"q · k overflows float16: it reaches {raw.max():.3g}, beyond 65,504: scale q first, or add in float32"
    largest = all_scores.max(axis=-1)
    for name, limit in _POWERS.items():
        if exactly(np.asarray(largest > limit)):
            return f"e^score overflows {name} beyond {limit:.4g}: subtract the row's maximum before the exponential"
    return ""
