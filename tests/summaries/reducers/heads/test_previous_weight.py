"""Weight on the token before the query."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from attn_cli.kernel.definition.rule import Rule
from tests.strategies import Problem, problems
from tests.summaries.reducers.heads.by_hand import heads_of, mean_over_rows
from tests.summaries.test_laws import CLOSE


@given(problems(), st.booleans())
def test_previous_weight_is_the_diagonal_below_the_main_one(problem: Problem, tensors: bool) -> None:
    assume(problem.q.shape[1] <= problem.k.shape[1])  # a self-attention never has more queries than keys
    expected = mean_over_rows(problem, lambda row: row.at(row.query - 1))
    np.testing.assert_allclose(heads_of(problem, tensors=tensors).previous_weight, expected, **CLOSE)


def test_cross_attention_has_no_previous_weight() -> None:
    problem = Problem(*np.ones((3, 2, 4, 3)), Rule(1.0))
    assert np.isnan(heads_of(problem, tensors=False, stream="cross").previous_weight).all()
