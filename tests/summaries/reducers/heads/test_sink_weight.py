"""Weight on the learned sink."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import Problem, problems
from tests.summaries.reducers.heads.by_hand import heads_of, mean_over_rows
from tests.summaries.test_laws import CLOSE


@given(problems(), st.booleans())
def test_sink_weight_is_what_is_missing_to_1(problem: Problem, tensors: bool) -> None:
    expected = mean_over_rows(problem, lambda row: row.sink)
    np.testing.assert_allclose(heads_of(problem, tensors=tensors).sink_weight, expected, **CLOSE)
