"""Distance, against |i - j| cell by cell."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from attn_cli.kernel.definition.rule import Rule
from tests.strategies import Problem, problems
from tests.summaries.reducers.heads.by_hand import Row, heads_of, mean_over_rows
from tests.summaries.test_laws import CLOSE


def distance(row: Row) -> float:
    return sum(p * abs(row.query - key) for key, p in enumerate(row.weights))


@given(problems(), st.booleans())
def test_distance_is_the_weighted_number_of_tokens_between_query_and_key(problem: Problem, tensors: bool) -> None:
    assume(problem.q.shape[1] <= problem.k.shape[1])  # a self-attention never has more queries than keys
    expected = mean_over_rows(problem, distance)
    np.testing.assert_allclose(heads_of(problem, tensors=tensors).distance, expected, **CLOSE)


def test_cross_attention_has_no_distance() -> None:
    problem = Problem(*np.ones((3, 2, 4, 3)), Rule(1.0))
    assert np.isnan(heads_of(problem, tensors=False, stream="cross").distance).all()
