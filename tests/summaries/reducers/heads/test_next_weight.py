"""Weight on the token after the query: a number of encoders, and no number of models that look back."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attn_cli.kernel.definition.masks import Causal, Given, Mask, Window
from attn_cli.kernel.definition.rule import Rule
from tests.strategies import Problem, problems
from tests.summaries.reducers.heads.by_hand import heads_of, mean_over_rows
from tests.summaries.test_laws import CLOSE


@given(problems(), st.booleans())
def test_next_weight_is_the_diagonal_above_the_main_one(problem: Problem, tensors: bool) -> None:
    assume(problem.q.shape[1] <= problem.k.shape[1])  # a self-attention never has more queries than keys
    expected = mean_over_rows(problem, lambda row: row.at(row.query + 1))
    expected = expected if expected.any() else np.full_like(expected, np.nan)
    np.testing.assert_allclose(heads_of(problem, tensors=tensors).next_weight, expected, **CLOSE)


def test_cross_attention_has_no_next_weight() -> None:
    problem = Problem(*np.ones((3, 2, 4, 3)), Rule(1.0))
    assert np.isnan(heads_of(problem, tensors=False, stream="cross").next_weight).all()


@pytest.mark.parametrize("mask", [Causal(), Given(np.tri(5, dtype=bool)), Window(1, both_sides=True)], ids=str)
def test_a_mask_that_hides_what_follows_leaves_no_next_weight(mask: Mask) -> None:
    problem = Problem(*np.random.default_rng(1).normal(size=(3, 2, 5, 4)), Rule(1.0, mask=mask))
    assert np.isnan(heads_of(problem, tensors=False).next_weight).all()
