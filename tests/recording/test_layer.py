"""A recorded layer answers as the live call does: bands, cells, pooled blocks, terms; and every reducer runs on it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.mask import dense as dense_mask
from attn_cli.prompt import Token
from attn_cli.recording import LEVELS, MASKED, RecordedLayer
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import Heads, HeadStatistics
from attn_cli.summaries.reducers.keys import Received, ReceivedShares
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from attn_cli.summaries.reducers.record import recorded
from tests.kernel.definition.test_cells import places
from tests.strategies import Problem, as_tensors, problems


def tokens(count: int) -> tuple[Token, ...]:
    return tuple(Token(at, str(at)) for at in range(count))


def call_of(problem: Problem, *, torches: bool = False) -> AttentionCall:
    """The problem as a call of all its heads; with `torches` in float32 tensors, which the compiled walk takes."""
    h, n, _ = problem.q.shape
    g, m, _ = problem.k.shape
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    if torches:
        q, k, v = (torch.tensor(x, dtype=torch.float32) for x in (q, k, v))
        rule = as_tensors(rule, lambda x: torch.tensor(x, dtype=torch.bool if x.dtype == bool else torch.float32))
    heads, groups = tuple(range(h)), tuple(head // (h // g) for head in range(h))
    return AttentionCall(q, k, v, rule, Place(0, "test", heads, groups), tokens(n), tokens(m))


@settings(max_examples=30)
@given(problems(raw=True), st.booleans(), st.data())
def test_cells_are_those_of_the_definition(problem: Problem, torches: bool, data: st.DataObject) -> None:
    call = call_of(problem, torches=torches)
    layer, expected = recorded(call), attend(problem.q, problem.k, problem.v, problem.rule)
    tolerance = 2e-5 if torches else 1e-6  # log sums are kept in float32
    rows, keys = (data.draw(places(count)) for count in (call.n, call.m))
    for head in range(call.h):
        scores, weights = (x[head][rows][:, keys] for x in (expected.scores, expected.weights))
        np.testing.assert_allclose(layer.scores(head, rows, keys), scores, atol=tolerance)
        np.testing.assert_allclose(layer.weights(head, rows, keys), weights, atol=tolerance)
    allowed = dense_mask(problem.rule.mask, call.n, call.m, like=problem.q)
    allowed = allowed.any(0) if allowed.ndim == 3 else allowed
    assert np.array_equal(layer.allowed(rows, keys), np.broadcast_to(allowed, (call.n, call.m))[rows][:, keys])


@settings(max_examples=30)
@given(problems(), st.integers(1, 9), st.integers(1, 9), st.data())
def test_pooled_blocks_are_maxima_of_weights_and_the_scores_farthest_from_0(
    problem: Problem, a: int, b: int, data: st.DataObject
) -> None:
    call = call_of(problem)
    layer, expected = recorded(call), attend(problem.q, problem.k, problem.v, problem.rule)
    rows, keys = (data.draw(places(count)) for count in (call.n, call.m))
    for head in range(call.h):
        masked = np.isneginf(expected.scores[head][rows][:, keys])
        for scores, cells in ((True, expected.scores), (False, expected.weights)):
            blocks = block_loop(np.where(masked, np.nan, cells[head][rows][:, keys]), a, b, farthest=scores)
            np.testing.assert_allclose(layer.pooled(head, rows, keys, (a, b), scores=scores), blocks, atol=1e-6)


def block_loop(cells: np.ndarray, a: int, b: int, *, farthest: bool) -> np.ndarray:
    """Maxima of blocks, or what is farthest from 0, one by one; NaN where there is nothing but NaN."""
    n, m = cells.shape
    blocks = np.full((-(-n // a), -(-m // b)), np.nan)
    for i in range(blocks.shape[0]):
        for j in range(blocks.shape[1]):
            block = cells[i * a : (i + 1) * a, j * b : (j + 1) * b]
            numbers = block[~np.isnan(block)].tolist()
            blocks[i, j] = max(numbers, key=abs if farthest else None) if numbers else np.nan
    return blocks


@settings(max_examples=30)
@given(problems(), st.data())
def test_terms_add_up_to_the_score_and_the_weight(problem: Problem, data: st.DataObject) -> None:
    call = call_of(problem)
    layer, expected = recorded(call), attend(problem.q, problem.k, problem.v, problem.rule)
    head, i, j = (data.draw(st.integers(0, count - 1)) for count in (call.h, call.n, call.m))
    terms = layer.terms(head, i, j)
    total = terms.scale * terms.products.sum()
    total = total if terms.softcap is None else terms.softcap * np.tanh(total / terms.softcap)
    total += terms.bias or 0.0
    row = expected.scores[head, i]
    if np.isneginf(row[j]):
        assert (terms.score, terms.weight, terms.rank) == (-np.inf, 0.0, None)
        return
    assert terms.score == pytest.approx(row[j]) == pytest.approx(total)
    assert terms.weight == pytest.approx(np.exp(total - terms.log_sum), abs=1e-6)
    assert terms.rank == 1 + sum(row > row[j])


@settings(max_examples=30)
@given(problems(), st.booleans())
def test_every_reducer_runs_on_it(problem: Problem, torches: bool) -> None:
    call = call_of(problem, torches=torches)
    layer = recorded(call)
    parts = (MatrixOf(kinds=("weights", "scores")), HeadStatistics(), ReceivedShares())
    live, again = reduce(call, *parts), reduce(layer, *parts)
    for kind in (Matrix, Heads, Received):
        for name, values in live.part(kind).arrays().items():
            np.testing.assert_allclose(again.part(kind).arrays()[name], values, atol=2e-5, err_msg=name)
    assert again.rule | {"mask": ""} == live.rule | {"mask": ""}
    for name, values in live.part(Heads).statistics.items():
        np.testing.assert_allclose(layer.statistics[name], values, atol=2e-5, err_msg=name)


@settings(max_examples=30)
@given(problems())
def test_thumbnails_tell_masked_blocks_from_small_weights(problem: Problem) -> None:
    layer = recorded(call_of(problem))
    weights = attend(problem.q, problem.k, problem.v, problem.rule).weights
    allowed = layer.allowed(slice(0, layer.n), slice(0, layer.m))
    assert np.array_equal(layer.thumbnail == MASKED, np.broadcast_to(~allowed, weights.shape))
    levels = np.rint(LEVELS * np.sqrt(weights))
    assert np.abs(np.where(allowed, layer.thumbnail - levels, 0)).max() <= 1


def test_bfloat16_is_kept_as_it_is() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 7, 8, dtype=torch.bfloat16)
    call = call_of(Problem(np.zeros((2, 7, 8)), np.zeros((2, 7, 8)), np.zeros((2, 7, 8)), None))
    from attn_cli.kernel.definition.rule import Rule

    call = AttentionCall(x, x, x, Rule(0.3), call.place, call.queries, call.keys)
    layer: RecordedLayer = recorded(call)
    assert layer.q.dtype == np.uint16
    expected = attend(x.float(), x.float(), x.float(), Rule(0.3))
    np.testing.assert_allclose(layer.scores(1, slice(2, 5), slice(0, 7)), expected.scores[1, 2:5], atol=1e-6)
    np.testing.assert_allclose(layer.weights(1, slice(2, 5), slice(0, 7)), expected.weights[1, 2:5], atol=1e-6)
