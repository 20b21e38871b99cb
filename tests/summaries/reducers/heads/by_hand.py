"""Per-head statistics from dense weights, one row at a time."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import Heads, HeadStatistics
from tests.strategies import Problem
from tests.summaries.test_laws import attended, call_of


@dataclass
class Row:
    """The weights `[m]` of one query, the key that it stands at, and what the learned sink takes."""

    weights: np.ndarray
    query: int
    sink: float

    def at(self, key: int) -> float:
        return float(self.weights[key]) if 0 <= key < len(self.weights) else 0.0


def mean_over_rows(problem: Problem, of_row: Callable[[Row], float]) -> np.ndarray:
    """The mean `[h]` of a number of every row that may attend to anything, 0 where none may."""
    weights = attended(problem).weights
    _, n, m = weights.shape
    has_sink = problem.rule.sink is not None
    means = []
    for head in weights:
        rows = [Row(row, i + m - n, 1 - row.sum() if has_sink else 0.0) for i, row in enumerate(head) if row.sum() > 0]
        means.append(sum(map(of_row, rows)) / max(len(rows), 1))
    return np.array(means)


def heads_of(problem: Problem, *, tensors: bool, stream: str = "self") -> Heads:
    call = call_of(problem, tensors=tensors)
    heads = reduce(replace(call, place=replace(call.place, stream=stream)), HeadStatistics()).part(Heads)
    assert heads is not None
    return heads
