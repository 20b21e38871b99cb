"""A call in words is the dense matrix merged by hand, whatever the mask, the bands and the library."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.attention_call import AttentionCall
from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token, Word
from attn_cli.summaries.calls.hidden_keys import HiddenKeys
from attn_cli.summaries.calls.in_words import InWords, words_of
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import Heads, HeadStatistics
from attn_cli.summaries.reducers.keys import Received, ReceivedShares, Top, TopKeys
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.strategies import Problem, planned_by, planner, problems
from tests.summaries.test_laws import CLOSE, call_of


@pytest.fixture(scope="module", autouse=True)
def tiles() -> Iterator[None]:
    """Bands of two rows, at whose ends words lie across: the longest in four of them."""
    token = planner.set(planned_by({"height": 2}, in_parts={"heads": 1}))
    yield
    planner.reset(token)


def labelled(sizes: list[int]) -> tuple[Token, ...]:
    """Words of so many pieces; 0 is a special token."""
    tokens: list[Token] = []
    for number, size in enumerate(sizes):
        word = Word(f"w{number}") if size else None
        tokens += [
            Token(len(tokens) + at, f"w{number}.{at}", special=word is None, word=word) for at in range(size or 1)
        ]
    return tuple(tokens)


@st.composite
def calls(draw: st.DrawFn) -> tuple[Problem, AttentionCall]:
    """A problem and its call, rows and keys cut into words anyhow, the same way where they are the same tokens."""
    problem = draw(problems())
    n, m = problem.q.shape[1], problem.k.shape[1]

    def tokens(count: int) -> tuple[Token, ...]:
        sizes: list[int] = []
        while (left := count - sum(size or 1 for size in sizes)) > 0:
            sizes.append(draw(st.integers(0, min(left, 7))))
        return labelled(sizes)

    queries = tokens(n)
    call = call_of(problem, tensors=draw(st.booleans()))
    return problem, replace(call, queries=queries, keys=queries if n == m else tokens(m))


def by_hand(problem: Problem, call: AttentionCall) -> np.ndarray:
    """Dense weights [h, n, m], merged word by word the plain way."""
    weights = attend(problem.q, problem.k, problem.v, problem.rule).weights
    rows, keys = words_of(call.queries).starts, words_of(call.keys).starts
    return np.array(
        [
            [[head[a:b, c:d].sum(axis=1).mean() for c, d in pairwise(keys)] for a, b in pairwise(rows)]
            for head in weights
        ]
    )


@given(calls(), st.booleans(), st.data())
def test_the_matrix_is_the_dense_one_merged(made, mean: bool, data: st.DataObject) -> None:
    problem, call = made
    shown = InWords(call)
    some = st.lists(st.integers(0, shown.n - 1), min_size=1, unique=True).map(sorted)
    rows = data.draw(st.none() | some)
    found = reduce(shown, MatrixOf(rows=rows, mean_heads=mean)).part(Matrix)
    expected = by_hand(problem, call)
    expected = expected.mean(axis=0, keepdims=True) if mean else expected
    np.testing.assert_allclose(found.weights, expected if rows is None else expected[:, rows], **CLOSE)


@given(calls(), st.integers(1, 9))
def test_other_summaries_are_those_of_the_merged_matrix(made, count: int) -> None:
    problem, call = made
    weights = by_hand(problem, call)
    found = reduce(InWords(call), ReceivedShares(), TopKeys(count, scores=False), MatrixOf((99, 99)))
    np.testing.assert_allclose(found.part(Received).weights, weights.mean(axis=1), **CLOSE)
    np.testing.assert_allclose(found.part(Matrix).weights, weights, **CLOSE)
    top = found.part(Top)
    np.testing.assert_allclose(top.weights, -np.sort(-weights, axis=-1)[:, :, :count], **CLOSE)
    named = top.keys >= 0
    assert (named == (top.weights > 0)).all()
    at = np.take_along_axis(weights, np.maximum(top.keys, 0), axis=-1)
    np.testing.assert_allclose(at[named], top.weights[named], **CLOSE)
    assert top.numbers["score"] is None


def test_induction_follows_words() -> None:
    """The word "a" comes up again as the third: its row's weight on the second is what counts."""
    q, k, v = np.random.default_rng(2).normal(size=(3, 1, 5, 4))
    first, again, b = Word("a"), Word("a"), Word("b")
    tokens = tuple(Token(at, "", word=word) for at, word in enumerate((first, first, b, again, again)))
    problem = Problem(q, k, v, Rule(0.5))
    call = replace(call_of(problem, tensors=False), queries=tokens, keys=tokens)
    found = reduce(InWords(call), HeadStatistics()).part(Heads)
    np.testing.assert_allclose(found.induction_weight, by_hand(problem, call)[:, 2, 1], **CLOSE)


@given(calls())
def test_special_tokens_can_be_hidden_among_words(made) -> None:
    problem, call = made
    special = [at for at, word in enumerate(words_of(call.keys).labels) if word.special]
    found = reduce(HiddenKeys(InWords(call), special), MatrixOf()).part(Matrix)
    expected = by_hand(problem, call)
    expected[:, :, special] = 0
    np.testing.assert_allclose(found.weights, expected, **CLOSE)
