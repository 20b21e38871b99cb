"""Hidden keys: the numbers of the others stay."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.kernel.definition import dense
from attn_cli.kernel.definition.rule import Rule
from attn_cli.summaries.calls.hidden_keys import HiddenKeys
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import Heads, HeadStatistics
from attn_cli.summaries.reducers.keys import Overall, OverallKeys, Received, ReceivedShares, Top, TopKeys
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.strategies import Problem, planned_by, planner, problems
from tests.summaries.test_laws import call_of

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


@pytest.fixture(scope="module", autouse=True)
def tiles() -> Iterator[None]:
    """Bands of one head and five rows; wider ones are a case of them."""
    token = planner.set(planned_by(in_parts={"heads": 1, "height": 5}))
    yield
    planner.reset(token)


@st.composite
def hidden_calls(draw: st.DrawFn):
    """A problem, its call with some keys hidden, and which keys are left."""
    problem = draw(problems())
    m = problem.k.shape[1]
    left = np.array(draw(st.lists(st.booleans(), min_size=m, max_size=m)))
    call = call_of(problem, tensors=draw(st.booleans()))
    return problem, HiddenKeys(call, np.flatnonzero(~left).tolist()), left


def weights_of(problem: Problem) -> np.ndarray:
    return dense.attend(problem.q, problem.k, problem.v, problem.rule).weights


@given(hidden_calls())
def test_the_matrix(made) -> None:
    problem, call, left = made
    matrix = reduce(call, MatrixOf(kinds=("weights", "scores"))).part(Matrix)
    np.testing.assert_allclose(matrix.weights, np.where(left, weights_of(problem), 0), **CLOSE)
    assert np.isneginf(matrix.scores[:, :, ~left]).all()


@given(hidden_calls(), st.booleans())
def test_top_keys(made, mean: bool) -> None:
    problem, call, left = made
    top = reduce(call, TopKeys(call.m, mean_heads=mean)).part(Top)
    weights = np.where(left, weights_of(problem), 0)
    weights = weights.mean(0, keepdims=True) if mean else weights
    np.testing.assert_allclose(top.weights, -np.sort(-weights, axis=-1), **CLOSE)
    assert not np.isin(top.keys[top.keys >= 0], np.flatnonzero(~left)).any()


@given(hidden_calls())
def test_what_keys_receive(made) -> None:
    problem, call, left = made
    summary = reduce(call, ReceivedShares(), OverallKeys(3))
    sums = np.where(left, weights_of(problem), 0).sum(axis=1)  # [h, m]
    received, overall = summary.part(Received), summary.part(Overall)
    np.testing.assert_allclose(received.weights, sums / call.n, **CLOSE)
    np.testing.assert_allclose(overall.weights, -np.sort(-sums / call.n, axis=-1)[:, :3], **CLOSE)
    assert {row["key"] for row in received.records(summary)} == set(np.flatnonzero(left))


@given(hidden_calls(), st.data())
def test_statistics_of_heads(made, data) -> None:
    """Means over rows."""
    problem, call, left = made
    rows = data.draw(st.none() | st.sets(st.integers(0, call.n - 1), min_size=1).map(sorted))
    found = reduce(call, HeadStatistics(rows)).part(Heads)
    picked = slice(None) if rows is None else rows
    whole = weights_of(problem)[:, picked]
    kept = np.where(left, whole, 0)
    rest, hidden, live = kept.sum(-1), np.where(left, 0, whole).sum(-1), whole.max(-1) > 0

    def mean(values: np.ndarray) -> np.ndarray:
        return (values * live).sum(-1) / np.maximum(live.sum(-1), 1)

    def bits(x: np.ndarray) -> np.ndarray:
        return -x * np.log2(x, out=np.zeros_like(x), where=x > 0)

    sink = 0.0 if problem.rule.sink is None else np.where(live, 1 - rest - hidden, 0)
    entropy = bits(kept).sum(-1) + bits(hidden) + bits(np.maximum(sink, 0) + 0 * hidden)
    np.testing.assert_allclose(found.sink_weight, mean(sink + 0 * hidden), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.entropy_bits, mean(entropy), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.first_weight, mean(kept[:, :, 0]), **CLOSE)
    if call.place.stream == "self":
        i = np.arange(call.n)[picked]
        away = np.abs(i[:, None] - np.arange(call.m))
        np.testing.assert_allclose(found.distance, mean((kept * away).sum(-1)), rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(found.self_weight, mean(kept[:, np.arange(len(i)), i]), **CLOSE)
        has, at = live & (i > 0), np.arange(len(i))
        before = np.where(has, kept[:, at, np.maximum(i - 1, 0)], 0).sum(-1) / np.where(
            has.any(-1), has.sum(-1), np.nan
        )
        np.testing.assert_allclose(found.previous_weight, before, **CLOSE)
    assert found.masked_rows.tolist() == (~live).sum(-1).tolist()
    assert (found.rest is None) == left.all()
    if found.rest is not None:
        np.testing.assert_allclose(found.rest, rest.sum(-1) / np.maximum(live.sum(-1), 1), **CLOSE)


def test_next_to_nothing_is_exact() -> None:
    """In single precision 1 less the sink's weight is 0: what is left is summed, and not subtracted."""
    q = np.ones((1, 3, 1), dtype=np.float32)
    k = np.array([[[30.0], [1.0], [2.0]]], dtype=np.float32)
    call = call_of(Problem(q, k, k, Rule(1.0)), tensors=False)
    assert reduce(call, MatrixOf()).part(Matrix).weights[0, 0, 0] == 1.0
    found = reduce(HiddenKeys(call, [0]), HeadStatistics()).part(Heads)
    np.testing.assert_allclose(found.rest[0], np.exp(-29) + np.exp(-28), rtol=1e-5)
