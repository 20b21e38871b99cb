"""Any rectangle of cells equals the same cells of the dense definition, for any rule."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.kernel.definition.cells import scores_between, weights_of
from attn_cli.kernel.definition.dense import attend
from tests.strategies import Problem, problems


def log_sums_of(scores: np.ndarray, sink: np.ndarray | None) -> np.ndarray:
    """The logarithm of every row's sum, plainly: -inf where nothing is allowed."""
    sums = np.exp(scores).sum(-1) + (0 if sink is None else np.exp(sink)[:, None])
    live = ~np.isneginf(scores).all(-1)
    return np.where(live, np.log(np.where(live, sums, 1.0)), -np.inf)


@given(problems(raw=True), st.data())
def test_any_rectangle_equals_the_dense_one(problem: Problem, data: st.DataObject) -> None:
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    dense = attend(q, k, v, rule)
    rows, keys = (data.draw(places(count)) for count in dense.scores.shape[1:])
    i, j = (np.arange(count)[some] for count, some in zip(dense.scores.shape[1:], (rows, keys), strict=True))
    scores = scores_between(q[:, rows], k[:, keys], rule, i, j)
    np.testing.assert_allclose(scores, dense.scores[:, rows][:, :, keys], atol=1e-12)
    weights = weights_of(scores, rule, log_sums_of(dense.scores, rule.sink)[:, rows])
    np.testing.assert_allclose(weights, dense.weights[:, rows][:, :, keys], atol=1e-12)


def places(count: int) -> st.SearchStrategy[slice | np.ndarray]:
    run = st.tuples(st.integers(0, count), st.integers(0, count)).map(lambda ends: slice(min(ends), max(ends)))
    picked = st.sets(st.integers(0, count - 1), min_size=1).map(lambda some: np.array(sorted(some)))
    return run | picked
