"""Weight on the query itself."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from attn_cli.kernel.definition.rule import Rule
from tests.strategies import Problem, problems
from tests.summaries.reducers.heads.by_hand import heads_of, mean_over_rows
from tests.summaries.test_laws import CLOSE


@given(problems(), st.booleans())
def test_self_weight_is_the_main_diagonal(problem: Problem, tensors: bool) -> None:
    assume(problem.q.shape[1] <= problem.k.shape[1])  # a self-attention never has more queries than keys
    expected = mean_over_rows(problem, lambda row: row.at(row.query))
    np.testing.assert_allclose(heads_of(problem, tensors=tensors).self_weight, expected, **CLOSE)


def test_cross_attention_has_no_self_weight() -> None:
    problem = Problem(*np.ones((3, 2, 4, 3)), Rule(1.0))
    assert np.isnan(heads_of(problem, tensors=False, stream="cross").self_weight).all()
