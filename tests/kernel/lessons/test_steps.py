"""The definition taken apart gives the same numbers as the definition."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.arrays import to_numpy
from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.lessons.steps import steps
from tests.strategies import Problem, problems

CLOSE = {"rtol": 1e-12, "atol": 1e-13}  # the same float64 operations


@given(problems(raw=True))
def test_the_last_steps_are_the_definitions(problem: Problem) -> None:
    expected = attend(problem.q, problem.k, problem.v, problem.rule)
    result = {step.name: step.values for step in steps(problem.q, problem.k, problem.v, problem.rule)}
    np.testing.assert_allclose(result["weights"], expected.weights, **CLOSE)
    np.testing.assert_allclose(result["output"], expected.output, **CLOSE)
    before = [name for name in result if name in ("scores", "scaled", "capped", "biased", "masked")][-1]
    if problem.rule.softmax:
        np.testing.assert_allclose(result["weights"] * result["sum"], result["exp"], **CLOSE)
        total = result["weights"].sum(-1, keepdims=True) + result.get("sink weight", 0)
        np.testing.assert_allclose(total, (result["sum"] > 0) * 1.0, **CLOSE)
    np.testing.assert_allclose(result[before], expected.scores, **CLOSE)


@given(problems(raw=True), st.integers(0, 99))
def test_one_row_alone_is_that_row_of_all(problem: Problem, pick: int) -> None:
    row, m = pick % problem.q.shape[1], problem.k.shape[1]
    whole = steps(problem.q, problem.k, problem.v, problem.rule)
    alone = steps(problem.q[:, row : row + 1], problem.k, problem.v, problem.rule.of_rows(row, row + 1, m))
    assert [step.name for step in alone] == [step.name for step in whole]
    for one, all_rows in zip(alone, whole, strict=True):
        np.testing.assert_allclose(to_numpy(one.values)[:, 0], to_numpy(all_rows.values)[:, row], **CLOSE)
