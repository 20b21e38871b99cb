"""Bands are the definition, a few rows at a time."""

import gc
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.arrays import to_numpy
from attn_cli.kernel.bands.band import Band, Buffers, Work
from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.passes import SAFE_SCORE, in_passes
from attn_cli.kernel.bands.plan import Plan, largest_score, plan_of
from attn_cli.kernel.bands.threads import in_order
from attn_cli.kernel.definition import dense
from attn_cli.kernel.definition.mask import Mask, all_of, causal, given_mask, padding, window
from attn_cli.kernel.definition.rule import Rule
from tests.strategies import Problem, as_tensors, problems

# Both sum the same float64 numbers, at most 24 of them, in another order.
CLOSE = {"rtol": 1e-12, "atol": 1e-13}


def assembled(problem: Problem, *, tensors: bool = False, want_scores: bool = True, **choices: Any):
    """All bands put together again as whole scores, weights and output; `choices` of the plan are made otherwise."""
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    if tensors:
        q, k, v, rule = torch.tensor(q), torch.tensor(k), torch.tensor(v), as_tensors(rule)
    h, n, m = q.shape[0], q.shape[1], k.shape[1]
    scores, weights = np.full((h, n, m), -np.inf), np.zeros((h, n, m))
    output = np.zeros((h, n, v.shape[2]))
    plan = replace(plan_of(q, k, rule, want_scores=want_scores), **choices)
    for band in bands(q, k, v, rule, plan):
        at = np.s_[band.heads, band.start : band.stop, band.first : band.last]
        weights[at] = to_numpy(band.weights)
        output[band.heads, band.start : band.stop] = to_numpy(band.output)
        if band.scores is not None:
            scores[at] = to_numpy(band.scores)
    return scores, weights, output


CHOICES: dict[str, dict[str, Any]] = {
    "the plan's own": {},
    "as if this problem called for it": {"finite_scores": False, "subtract_maximum": True},
    "made ahead by threads": {"threads": 3},
}


@pytest.mark.parametrize("name", CHOICES)
@given(
    problem=problems(raw=True),
    height=st.integers(1, 30),
    heads=st.integers(0, 9),
    tensors=st.booleans(),
    want_scores=st.booleans(),
)
def test_bands_equal_the_definition(
    name: str, problem: Problem, height: int, heads: int, tensors: bool, want_scores: bool
) -> None:
    choices, share = CHOICES[name] | {"height": height}, problem.q.shape[0] // problem.k.shape[0]
    if heads:
        choices["heads"] = share if heads % share and share % heads else heads
    expected = dense.attend(problem.q, problem.k, problem.v, problem.rule)
    scores, weights, output = assembled(problem, tensors=tensors, want_scores=want_scores, **choices)
    np.testing.assert_allclose(weights, expected.weights, **CLOSE)
    np.testing.assert_allclose(output, expected.output, **CLOSE)
    if want_scores:
        np.testing.assert_allclose(scores, expected.scores, **CLOSE)


@pytest.mark.parametrize("reach", [59.0, 61.0, 1e6])
@pytest.mark.parametrize("mask", [Mask(), causal(), causal(-3), window(4, 0)])
def test_large_scores_are_safe_whether_or_not_the_maximum_is_subtracted(reach: float, mask: Mask) -> None:
    random = np.random.default_rng(5)
    q, k = (random.choice([-1.0, 1.0], size=(2, 40, 1)).astype(np.float32) for _ in "qk")
    v = random.normal(size=(2, 40, 3)).astype(np.float32)
    rule = Rule(reach, mask=mask)
    assert largest_score(q, k, rule) == reach
    expected = dense.attend(*(x.astype(np.float64) for x in (q, k, v)), rule)
    plan = plan_of(q, k, rule)
    assert plan.subtract_maximum is (reach > SAFE_SCORE)
    assert plan.finite_scores
    for band in bands(q, k, v, rule, replace(plan, height=16)):
        part = np.s_[:, band.start : band.stop]
        np.testing.assert_allclose(band.output, expected.output[part], rtol=2e-6, atol=1e-6)
        weights = expected.weights[part][:, :, band.first : band.last]
        np.testing.assert_allclose(band.weights, weights, rtol=2e-6, atol=1e-37)


@pytest.mark.parametrize("tensors", [True, False])
def test_a_few_rows_are_walked_without_reading_every_query_first(tensors: bool) -> None:
    """So nothing is assumed of the size of scores, and the rows come out as among all."""
    q, k, v = np.random.default_rng(6).normal(size=(3, 2, 40, 4)).astype(np.float32) * 30
    rule = Rule(1.0, mask=causal())
    if tensors:
        q, k, v = (torch.from_numpy(x) for x in (q, k, v))
    few = plan_of(q, k, rule, rows=[7, 39])
    assert few.subtract_maximum
    assert not few.finite_scores
    expected = dense.attend(*(np.asarray(x, np.float64) for x in (q, k, v)), rule)
    walked = {band.start: band for band in bands(q, k, v, rule, few)}
    assert sorted(walked) == [7, 39]
    for row, band in walked.items():
        np.testing.assert_allclose(band.output[:, 0], expected.output[:, row], rtol=2e-5, atol=1e-5)


def test_numbers_whose_squares_are_no_floats_make_no_noise(recwarn: pytest.WarningsRecorder) -> None:
    q = np.full((1, 2, 2), 1e30, np.float32)
    assert largest_score(q, q, Rule(1.0)) == np.inf
    assert np.isnan(largest_score(q * np.nan, q, Rule(1.0)))
    assert (
        largest_score(q[:, :0], q, Rule(1.0)) == largest_score(torch.tensor(q), torch.tensor(q[:, :0]), Rule(1.0)) == 0
    )
    assert not recwarn.list


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e38, -1e38])
@pytest.mark.parametrize("tensors", [True, False])
@pytest.mark.parametrize("softcap", [None, 5.0])
def test_masked_keys_may_hold_anything(number: float, tensors: bool, softcap: float | None) -> None:
    """Padding does: what a model makes of a row that sees nothing."""
    random = np.random.default_rng(3)
    q, k, v = random.normal(size=(3, 2, 12, 4)).astype(np.float32)
    rule = Rule(1.0, mask=all_of(causal(), padding(np.arange(12) > 2)), softcap=softcap)
    clean = Problem(q, k.copy(), v, rule)
    k[:, :3] = number
    with np.errstate(all="ignore"):
        result = assembled(Problem(q, k, v, rule), height=5, tensors=tensors)
    for x, y in zip(result, assembled(clean, height=5, tensors=tensors), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6)


def test_a_walk_that_is_left_ends_its_threads_and_errors_arrive() -> None:
    jobs = [lambda memory: 1, lambda memory: 2, lambda memory: 1 // 0, lambda memory: 4]
    before = set(threading.enumerate())
    for result in in_order(iter(jobs), [None, None]):
        assert result == 1
        break
    results = []
    with pytest.raises(ZeroDivisionError):
        results.extend(in_order(iter(jobs), [None, None, None]))
    gc.collect()
    assert set(threading.enumerate()) <= before


def test_another_executor_computes_the_bands_of_a_plan_that_names_it() -> None:
    sizes = []

    def counting(work: Work, buffers: Buffers) -> Band:
        assert buffers.weights is None
        sizes.append((work.q.shape, work.k_across.shape, work.v.shape))
        return in_passes(work, buffers)

    x = np.random.default_rng(0).normal(size=(2, 6, 3))
    rule = Rule(0.5, mask=causal())
    walked = bands(x, x[:1], x[:1], rule, Plan(range(6), 2, 4, executor=counting))
    output = np.concatenate([band.output for band in walked], axis=1)
    np.testing.assert_allclose(output, dense.attend(x, x[:1], x[:1], rule).output, **CLOSE)
    assert sizes == [((2, 4, 3), (1, 3, 4), (1, 4, 3)), ((2, 2, 3), (1, 3, 6), (1, 6, 3))]


@given(problems())
def test_rows_sum_to_one_or_are_all_zero(problem: Problem) -> None:
    if problem.rule.sink is not None:
        return
    _, weights, _ = assembled(problem, height=7)
    sums = weights.sum(-1)
    assert np.all((sums == 0) | (abs(sums - 1) < 1e-12))


@given(problems(), st.integers(0, 2**31))
def test_permuting_keys_permutes_columns(problem: Problem, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(problem.k.shape[1])
    open_rule = Rule(scale=problem.rule.scale, softcap=problem.rule.softcap, sink=problem.rule.sink)
    plain = dense.attend(problem.q, problem.k, problem.v, open_rule)
    moved = dense.attend(problem.q, problem.k[:, order], problem.v[:, order], open_rule)
    np.testing.assert_allclose(moved.weights, plain.weights[..., order], **CLOSE)
    np.testing.assert_allclose(moved.output, plain.output, **CLOSE)


@given(problems())
def test_a_causal_row_ignores_the_future(problem: Problem) -> None:
    rule = Rule(scale=1.0, mask=causal())
    before = dense.attend(problem.q, problem.k, problem.v, rule).output
    k, v = problem.k.copy(), problem.v.copy()
    k[:, 1:], v[:, 1:] = 9.0, -9.0
    after = dense.attend(problem.q, k, v, rule).output
    np.testing.assert_array_equal(before[:, 0], after[:, 0])


def test_causal_bands_stop_at_the_diagonal_and_windows_start_at_their_edge() -> None:
    x = np.zeros((1, 12, 2))
    near = all_of(causal(), window(4))
    spans = [(b.start, b.first, b.last) for b in bands(x, x, x, Rule(1.0, mask=near), Plan(range(12), 1, 4))]
    # rows 4..7 see keys 4-3=1 .. 7; rows 8..11 see 5 .. 11
    assert spans == [(0, 0, 4), (4, 1, 8), (8, 5, 12)]


def test_a_fully_masked_row_is_zero_and_not_nan() -> None:
    x = np.ones((1, 2, 2))
    rule = Rule(1.0, mask=given_mask(np.array([[False, False], [True, True]])))
    for band in bands(x, x, x, rule, plan_of(x, x, rule)):
        assert band.weights.tolist() == [[[0.0, 0.0], [0.5, 0.5]]]
        assert band.output.tolist() == [[[0.0, 0.0], [1.0, 1.0]]]


@pytest.mark.parametrize("rows", [[0], [1, 2, 3, 7], [5, 6, 7, 8, 9]])
def test_only_the_rows_of_the_plan_are_walked(rows: list[int]) -> None:
    x = np.random.default_rng(0).normal(size=(2, 10, 3))
    whole = dense.attend(x, x, x, Rule(0.5, mask=causal())).weights
    seen: list[int] = []
    rule = Rule(0.5, mask=causal())
    for band in bands(x, x, x, rule, replace(plan_of(x, x, rule, rows=rows), height=2)):
        seen += range(band.start, band.stop)
        np.testing.assert_allclose(band.weights, whole[:, band.start : band.stop, band.first : band.last], **CLOSE)
    assert seen == rows
