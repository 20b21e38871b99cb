"""Weight on what followed the query's token before, against the cells picked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.kernel.definition.masks import Causal, Open
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads.head_statistics import Heads, HeadStatistics
from tests.strategies import Problem
from tests.summaries.reducers.heads.by_hand import heads_of
from tests.summaries.test_laws import CLOSE, attended, call_of


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_induction_is_the_weight_on_what_followed_the_same_token_before(tensors: bool, causal: bool) -> None:
    """By hand: for every query whose token came up before, the cell of the key after the latest place."""
    random = np.random.default_rng(5)
    words = [str(word) for word in random.integers(0, 6, size=23)]
    q, k = (random.normal(size=(3, 23, 4)) * 2 for _ in "qk")
    problem = Problem(q, k, k, Rule(0.5, mask=Causal() if causal else Open()))
    tokens = tuple(Token(i, word, special=i == 4) for i, word in enumerate(words))
    call = replace(call_of(problem, tensors=tensors), queries=tokens, keys=tokens)
    heads = reduce(call, HeadStatistics()).part(Heads)
    weights, cells = attended(problem).weights, []
    for i in range(23):
        earlier = [j for j in range(i) if words[j] == words[i] and 4 not in (i, j)]
        if earlier:
            cells.append(weights[:, i, earlier[-1] + 1])
    assert 10 < len(cells) < 23
    np.testing.assert_allclose(heads.induction_weight, np.mean(cells, axis=0), **CLOSE)


def test_induction_of_a_text_without_repeats_is_unknown() -> None:
    heads = heads_of(Problem(*np.ones((3, 1, 4, 2)), Rule(1.0)), tensors=False)
    assert np.isnan(heads.induction_weight).all()
