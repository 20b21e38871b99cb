"""Grouped heads paired wrongly; heads cut or joined without moving the axis."""

from collections.abc import Iterator

import numpy as np

from attn_cli.kernel.definition.heads import join_heads, split_heads
from attn_cli.kernel.lessons.mistakes.problem import AttendedTo, Mistake, Problem, attended, attending

JOINED_BY_RESHAPE = "heads were joined by a reshape alone: [h, n, e] to [n, h * e] without moving the axis"


def head_mistakes(problem: Problem) -> Iterator[Mistake]:
    """Wrong implementations of this attention's heads: key heads shared wrongly, heads cut or joined by a reshape."""
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    h, g = len(q), len(k)
    if 1 < g < h:
        words = f"grouped key heads were tiled instead of repeated: head i read key head i mod {g}"
        tiled = (h // g, 1, 1)
        yield attending("groups-tiled", words, lambda: AttendedTo(q, np.tile(k, tiled), np.tile(v, tiled), rule))
    if 1 < g <= h:
        yield attended("key-head-0", "every head read key head 0", q, k[:1], v[:1], rule)
    if h == 1:
        return
    n, e = q.shape[-2], v.shape[-1]

    def joined(output: np.ndarray) -> np.ndarray:
        """The output so that joining it gives the numbers of heads joined by a reshape."""
        return np.asarray(split_heads(output.reshape(n, h * e), h))

    words = "heads were cut by a reshape alone: [n, h * d] to [h, n, d] without moving the axis"
    yield attending("heads-cut-by-reshape", words, lambda: AttendedTo(_recut(q), _recut(k), _recut(v), rule))
    words = "heads were cut and joined by a reshape alone: a transpose is missing on both sides"
    yield attending("heads-cut-and-joined-by-reshape", words,
                    lambda: AttendedTo(_recut(q), _recut(k), _recut(v), rule, joined))  # fmt: skip
    yield attended(
        "heads-joined-by-reshape",
        JOINED_BY_RESHAPE,
        q,
        k,
        v,
        rule,
        joined,
    )
    yield attended("output-reshaped",
                   "the output's rows and heads were reshaped, [n, h, e] to [h, n, e], where they must be transposed",
                   q, k, v, rule, _recut)  # fmt: skip


def _recut(x: np.ndarray) -> np.ndarray:
    return np.asarray(join_heads(x).reshape(x.shape))
