"""Entropy, against a logarithm per cell."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import Problem, problems
from tests.summaries.reducers.heads.by_hand import Row, heads_of, mean_over_rows
from tests.summaries.test_laws import CLOSE


def entropy(row: Row) -> float:
    """The sink counts as a key."""
    return -sum(p * np.log2(p) for p in (*row.weights, row.sink) if p > 0)


@given(problems(), st.booleans())
def test_entropy_is_the_mean_of_the_logarithms(problem: Problem, tensors: bool) -> None:
    expected = mean_over_rows(problem, entropy)
    np.testing.assert_allclose(heads_of(problem, tensors=tensors).entropy_bits, expected, **CLOSE)
