"""Pulls are what their definition says, over any masks, groups and sinks."""

import numpy as np
from hypothesis import given

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.prompt import Token
from attn_cli.summaries.answers.compare import pulls_of
from tests.strategies import Problem, problems


@given(problems())
def test_pulls_are_shares_of_the_output_along_itself(problem: Problem) -> None:
    h, n, _ = problem.q.shape
    m = problem.k.shape[1]
    heads = tuple(range(h))
    place = Place(0, "test", heads, tuple(head * problem.k.shape[0] // h for head in heads))
    queries, keys = (tuple(Token(at, str(at)) for at in range(size)) for size in (n, m))
    call = AttentionCall(problem.q, problem.k, problem.v, problem.rule, place, queries, keys)
    rows = sorted({0, n // 2, n - 1})
    truth = attend(problem.q, problem.k, problem.v, problem.rule)
    found = pulls_of(truth.weights[:, rows], call)
    assert found is not None
    values = expand_groups(problem.v, h)
    for at, row in enumerate(rows):
        parts = truth.weights[:, row, :, None] * values  # [h, m, e]
        output = parts.sum(axis=1)
        squared = (output**2).sum()
        # the division by a small |z|² magnifies rounding
        assert np.allclose(found[at] * squared, (parts * output[:, None]).sum(axis=(0, 2)), atol=1e-9)
        if squared > 1e-12:
            assert np.isclose(found[at].sum(), 1)
        if not truth.weights[:, row].any():  # may attend to nothing
            assert not found[at].any()
