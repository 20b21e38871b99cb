"""Grouped heads paired wrongly; heads cut or joined without moving the axis."""

from collections.abc import Iterator

import numpy as np

from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.heads import join_heads, split_heads
from attn_cli.kernel.lessons.mistakes.problem import Mistake, Problem, attended


def head_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Every mistake that is possible with so many heads."""
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    h, g = len(q), len(k)
    if 1 < g < h:
        words = f"grouped key heads were tiled instead of repeated: head i read key head i mod {g}"
        yield attended("groups-tiled", words, q, np.tile(k, (h // g, 1, 1)), np.tile(v, (h // g, 1, 1)), rule)
    if 1 < g <= h:
        yield attended("key-head-0", "every head read key head 0", q, k[:1], v[:1], rule)
    if h == 1:
        return
    cut = attend(_recut(q), _recut(k), _recut(v), rule)
    yield Mistake("heads-cut-by-reshape",
                  "heads were cut by a reshape alone: [n, h * d] to [h, n, d] without moving the axis",
                  cut.weights, cut.output)  # fmt: skip
    n, e = problem.right.output.shape[-2:]
    yield Mistake("heads-cut-and-joined-by-reshape",
                  "heads were cut and joined by a reshape alone: a transpose is missing on both sides",
                  cut.weights, np.asarray(split_heads(cut.output.reshape(n, h * e), h)))  # fmt: skip
    right = problem.right
    joined = np.asarray(split_heads(right.output.reshape(n, h * e), h))  # so that joining it gives that order
    yield Mistake("heads-joined-by-reshape",
                  "heads were joined by a reshape alone: [h, n, e] to [n, h * e] without moving the axis",
                  right.weights, joined)  # fmt: skip
    yield Mistake("output-reshaped",
                  "the output's rows and heads were reshaped, [n, h, e] to [h, n, e], where they must be transposed",
                  right.weights, _recut(right.output))  # fmt: skip


def _recut(x: np.ndarray) -> np.ndarray:
    return np.asarray(join_heads(x).reshape(x.shape))
