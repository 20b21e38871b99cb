"""Every summary equals what plain NumPy says of the dense weights, whatever the mask, the grouping and the library."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.bands.plan import plan_of
from attn_cli.kernel.definition import dense
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Reducer, reduce
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import Overall, OverallKeys, Received, ReceivedShares, Top, TopKeys
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from attn_cli.summaries.reducers.output import KeepOutput, Outputs
from tests.strategies import Problem, as_tensors, planned_by, planner, problems

# Both sum the same float64 numbers, at most 24 of them, in another order.
CLOSE = {"rtol": 1e-11, "atol": 1e-12}


@pytest.fixture(scope="module", params=["one tile", "small tiles"], autouse=True)
def tiles(request: pytest.FixtureRequest) -> Iterator[None]:
    """Problems of tests fit into one band; here they are cut as large ones are, too."""
    plans = {"one tile": plan_of, "small tiles": planned_by(in_parts={"heads": 1, "height": 5})}
    token = planner.set(plans[request.param])
    yield
    planner.reset(token)


def call_of(problem: Problem, *, tensors: bool) -> AttentionCall:
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    if tensors:
        q, k, v, rule = torch.tensor(q), torch.tensor(k), torch.tensor(v), as_tensors(rule)
    h, n, m = problem.q.shape[0], problem.q.shape[1], problem.k.shape[1]
    place = Place(3, "a.b", tuple(range(h)), tuple(range(h)), "self" if n == m else "cross")
    return AttentionCall(q, k, v, rule, place, _tokens(n), _tokens(m), planner=planner.get())


def _tokens(count: int) -> tuple[Token, ...]:
    return tuple(Token(i, f"t{i}") for i in range(count))


def attended(problem: Problem) -> dense.Attention:
    return dense.attend(problem.q, problem.k, problem.v, problem.rule)


@st.composite
def picks(draw: st.DrawFn) -> tuple[Problem, list[int] | None]:
    """A problem, and some of its rows or None for all."""
    problem = draw(problems())
    rows = st.lists(st.integers(0, problem.q.shape[1] - 1), min_size=1, unique=True).map(sorted)
    return problem, draw(st.none() | rows)


def chosen(values: np.ndarray, rows: Sequence[int] | None, mean: bool) -> np.ndarray:
    values = values.mean(0, keepdims=True) if mean else values
    return values if rows is None else values[:, rows]


@given(picks(), st.booleans(), st.booleans())
def test_the_full_matrix_is_the_dense_one(pick, tensors: bool, mean: bool) -> None:
    problem, rows = pick
    call = call_of(problem, tensors=tensors)
    found = reduce(call, MatrixOf(kinds=("weights", "scores"), rows=rows, mean_heads=mean)).part(Matrix)
    expected = attended(problem)
    assert found.averaged == (problem.q.shape[0] if mean else 0)
    assert found.rows == (None if rows is None else tuple(rows))
    np.testing.assert_allclose(found.weights, chosen(expected.weights, rows, mean), **CLOSE)
    np.testing.assert_allclose(found.scores, chosen(expected.scores, rows, mean), **CLOSE)


def farthest_from_0(block: np.ndarray) -> float:
    """The number of a block that is farthest from 0, masked cells aside; -inf where all are masked."""
    seen = block[np.isfinite(block)]
    return seen[np.argmax(np.abs(seen))] if seen.size else -np.inf


def pooled_by_hand(cells: np.ndarray, block: tuple[int, int], how: str) -> np.ndarray:
    height, width = block
    fold = {"max": np.max, "mean": np.mean, "extreme": farthest_from_0}[how]
    return np.array(
        [
            [[fold(head[i : i + height, j : j + width]) for j in range(0, cells.shape[2], width)]
             for i in range(0, cells.shape[1], height)]
            for head in cells
        ]
    )  # fmt: skip


@given(picks(), st.booleans(), st.booleans(), st.integers(1, 9), st.integers(1, 9))
def test_the_pooled_matrix_is_the_dense_one_in_blocks(pick, tensors, mean, height, width) -> None:
    problem, rows = pick
    reducer = MatrixOf((height, width), rows=rows, mean_heads=mean)
    found = reduce(call_of(problem, tensors=tensors), reducer).part(Matrix)
    cells = chosen(attended(problem).weights, rows, mean)
    assert found.weights.shape[1] <= height
    assert found.weights.shape[2] <= width
    assert found.block == (-(-cells.shape[1] // height), -(-cells.shape[2] // width))
    np.testing.assert_allclose(found.weights, pooled_by_hand(cells, found.block, "max"), **CLOSE)


@given(picks(), st.booleans(), st.booleans(), st.integers(1, 9), st.integers(1, 9))
def test_pooled_scores_are_the_farthest_from_0_of_a_block_and_minus_infinity_where_all_is_blocked(
    pick, tensors, mean, height, width
) -> None:
    problem, rows = pick
    reducer = MatrixOf((height, width), kinds=("scores",), rows=rows, mean_heads=mean)
    found = reduce(call_of(problem, tensors=tensors), reducer).part(Matrix)
    cells = chosen(attended(problem).scores, rows, mean)
    np.testing.assert_allclose(found.scores, pooled_by_hand(cells, found.block, "extreme"), **CLOSE)
    finite = cells[np.isfinite(cells)]
    if found.ends is not None and finite.size:
        np.testing.assert_allclose(found.ends, (finite.min(), finite.max()), **CLOSE)


@given(problems(), st.booleans())
def test_received_shares_are_column_means(problem: Problem, tensors: bool) -> None:
    found = reduce(call_of(problem, tensors=tensors), ReceivedShares()).part(Received)
    np.testing.assert_allclose(found.weights, attended(problem).weights.mean(axis=1), **CLOSE)


@given(picks(), st.booleans(), st.booleans(), st.integers(1, 30))
def test_overall_keys_have_the_largest_column_means_of_the_asked_rows(pick, tensors: bool, mean: bool, count) -> None:
    problem, rows = pick
    found = reduce(call_of(problem, tensors=tensors), OverallKeys(count, rows=rows, mean_heads=mean)).part(Overall)
    shares = chosen(attended(problem).weights, rows, mean).mean(axis=1)
    assert found.rows == tuple(range(problem.q.shape[1]) if rows is None else rows)
    assert found.keys.shape == found.weights.shape == (len(shares), min(count, shares.shape[1]))
    np.testing.assert_allclose(found.weights, -np.sort(-shares, axis=-1)[:, :count], **CLOSE)
    for row, keys, values in zip(shares, found.keys, found.weights, strict=True):
        named = keys[keys >= 0]
        assert len(set(named.tolist())) == len(named) == min(count, np.count_nonzero(row))
        np.testing.assert_allclose(row[named], values[: len(named)], **CLOSE)


@given(picks(), st.booleans(), st.booleans(), st.integers(1, 30))
def test_top_keys_are_the_heaviest_in_order(pick, tensors: bool, mean: bool, count: int) -> None:
    problem, rows = pick
    found = reduce(call_of(problem, tensors=tensors), TopKeys(count, rows=rows, mean_heads=mean)).part(Top)
    expected = attended(problem)
    weights, scores = chosen(expected.weights, rows, mean), chosen(expected.scores, rows, mean)
    k = min(count, weights.shape[2])
    assert found.rows == tuple(range(problem.q.shape[1]) if rows is None else rows)
    assert found.keys.shape == (*weights.shape[:2], k)
    for head, row in np.ndindex(weights.shape[:2]):
        named = found.keys[head, row] >= 0
        keys = found.keys[head, row][named]
        seen = np.isfinite(scores[head, row]) | (weights[head, row] > 0)
        assert len(set(keys.tolist())) == len(keys) == min(k, seen.sum())
        assert not named[len(keys) :].any()  # those without a key come last
        np.testing.assert_allclose(found.weights[head, row][named], -np.sort(-weights[head, row])[: len(keys)], **CLOSE)
        np.testing.assert_allclose(found.weights[head, row][named], weights[head, row, keys], **CLOSE)
        np.testing.assert_allclose(found.numbers["score"][head, row][named], scores[head, row, keys], **CLOSE)
        assert (found.weights[head, row][~named] == 0).all()


@pytest.mark.parametrize("tensors", [False, True])
def test_equal_weights_rank_by_key_number(tensors: bool) -> None:
    problem = Problem(np.zeros((2, 3, 4)), np.zeros((1, 6, 4)), np.zeros((1, 6, 1)), Rule(1.0))
    found = reduce(call_of(problem, tensors=tensors), TopKeys(5)).part(Top)
    assert (found.keys == np.arange(5)).all()


@pytest.mark.parametrize("tensors", [False, True])
def test_top_keys_of_many_keys_are_the_heaviest_too(tensors: bool) -> None:
    random = np.random.default_rng(3)
    problem = Problem(random.normal(size=(2, 5, 4)), random.normal(size=(2, 700, 4)), np.ones((2, 700, 1)), Rule(1.0))
    found = reduce(call_of(problem, tensors=tensors), TopKeys(7)).part(Top)
    np.testing.assert_array_equal(found.keys, np.argsort(-attended(problem).weights, axis=-1, kind="stable")[..., :7])


@given(problems(), st.booleans(), st.booleans())
def test_the_kept_output_is_the_dense_one_per_head_or_joined(problem: Problem, tensors: bool, joined: bool) -> None:
    found = reduce(call_of(problem, tensors=tensors), KeepOutput(joined=joined)).part(Outputs)
    output = attended(problem).output
    if joined:
        output = np.concatenate(list(output), axis=-1)[None]
    np.testing.assert_allclose(found.values, output, **CLOSE)


@given(picks(), st.booleans())
def test_one_pass_feeds_all_reducers_as_if_each_were_alone(pick, tensors: bool) -> None:
    problem, rows = pick
    call = call_of(problem, tensors=tensors)

    def all_of_them() -> list[Reducer]:
        asked = [MatrixOf(rows=rows), TopKeys(3, rows=rows), ReceivedShares(rows)]
        return [*asked, ReceivedShares(), HeadStatistics(), MatrixOf((4, 4))]

    together = reduce(call, *all_of_them()).parts
    for reducer, part in zip(all_of_them(), together, strict=True):
        for name, values in reduce(call, reducer).parts[0].arrays().items():
            np.testing.assert_allclose(part.arrays()[name], values, err_msg=name, **CLOSE)
