"""Weight on the first key."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import Problem, problems
from tests.summaries.reducers.heads.by_hand import heads_of, mean_over_rows
from tests.summaries.test_laws import CLOSE


@given(problems(), st.booleans())
def test_first_weight_is_the_first_column(problem: Problem, tensors: bool) -> None:
    expected = mean_over_rows(problem, lambda row: row.at(0))
    np.testing.assert_allclose(heads_of(problem, tensors=tensors).first_weight, expected, **CLOSE)
