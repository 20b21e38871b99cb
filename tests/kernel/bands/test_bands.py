"""Bands are the definition, a few rows at a time."""

import threading
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.arrays import to_numpy
from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import Plan, plan_of
from attn_cli.kernel.bands.threads import together
from attn_cli.kernel.definition import dense
from attn_cli.kernel.definition.mask import Mask, all_of, causal, padding, window
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
    plan = replace(plan_of(q, k, want_scores=want_scores), **choices)
    for band in bands(q, k, v, rule, plan):
        at = np.s_[band.heads, band.start : band.stop, band.first : band.last]
        weights[at] = to_numpy(band.weights)
        output[band.heads, band.start : band.stop] = to_numpy(band.output)
        if band.scores is not None:
            scores[at] = to_numpy(band.scores)
    return scores, weights, output


@given(
    problem=problems(raw=True),
    height=st.integers(1, 30),
    heads=st.integers(0, 9),
    tensors=st.booleans(),
    want_scores=st.booleans(),
)
def test_bands_equal_the_definition(
    problem: Problem, height: int, heads: int, tensors: bool, want_scores: bool
) -> None:
    choices, share = {"height": height}, problem.q.shape[0] // problem.k.shape[0]
    if heads:
        choices["heads"] = share if heads % share and share % heads else heads
    expected = dense.attend(problem.q, problem.k, problem.v, problem.rule)
    scores, weights, output = assembled(problem, tensors=tensors, want_scores=want_scores, **choices)
    np.testing.assert_allclose(weights, expected.weights, **CLOSE)
    np.testing.assert_allclose(output, expected.output, **CLOSE)
    if want_scores:
        np.testing.assert_allclose(scores, expected.scores, **CLOSE)


@pytest.mark.parametrize("reach", [60.0, 1e6])
@pytest.mark.parametrize("mask", [Mask(), causal(), causal(-3), window(4, 0)])
def test_large_scores_are_safe(reach: float, mask: Mask) -> None:
    random = np.random.default_rng(5)
    q, k = (random.choice([-1.0, 1.0], size=(2, 40, 1)).astype(np.float32) for _ in "qk")
    v = random.normal(size=(2, 40, 3)).astype(np.float32)
    rule = Rule(reach, mask=mask)
    expected = dense.attend(*(x.astype(np.float64) for x in (q, k, v)), rule)
    for band in bands(q, k, v, rule, replace(plan_of(q, k), height=16)):
        part = np.s_[:, band.start : band.stop]
        np.testing.assert_allclose(band.output, expected.output[part], rtol=2e-6, atol=1e-6)
        weights = expected.weights[part][:, :, band.first : band.last]
        np.testing.assert_allclose(band.weights, weights, rtol=2e-6, atol=1e-37)


@pytest.mark.parametrize("tensors", [True, False])
def test_rows_are_walked_alone(tensors: bool) -> None:
    q, k, v = np.random.default_rng(6).normal(size=(3, 2, 40, 4)).astype(np.float32) * 30
    rule = Rule(1.0, mask=causal())
    if tensors:
        q, k, v = (torch.from_numpy(x) for x in (q, k, v))
    few = plan_of(q, k, rows=[7, 39])
    expected = dense.attend(*(np.asarray(x, np.float64) for x in (q, k, v)), rule)
    walked = {band.start: band for band in bands(q, k, v, rule, few)}
    assert sorted(walked) == [7, 39]
    for row, band in walked.items():
        np.testing.assert_allclose(band.output[:, 0], expected.output[:, row], rtol=2e-5, atol=1e-5)


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


@pytest.mark.parametrize("tensors", [True, False])
def test_an_error_in_one_walk_ends_all_and_arrives(tensors: bool) -> None:
    before, cores = set(threading.enumerate()), torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        together([count(), (1 // (3 - step) for step in count())], tensors=tensors)  # the first has no end of its own
    assert set(threading.enumerate()) <= before
    assert torch.get_num_threads() == cores


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_threads_compute_in_the_mode_of_their_reader(mode) -> None:
    with mode():
        q = torch.randn(2, 9, 4, requires_grad=True)
        rule = Rule(1.0, mask=causal(), sink=torch.randn(2, requires_grad=True))
        plan, grads = plan_of(q, q, want_scores=True), []
        walks = [bands(q, q, q, rule, plan) for _ in range(2)]
        readers = [(grads.append(band.weights.mul_(2).requires_grad) for band in walk) for walk in walks]
        together(readers, tensors=True)  # which may change weights
        assert grads == [False, False]


def test_causal_bands_stop_at_the_diagonal_and_windows_start_at_their_edge() -> None:
    x = np.zeros((1, 12, 2))
    near = all_of(causal(), window(4))
    spans = [(b.start, b.first, b.last) for b in bands(x, x, x, Rule(1.0, mask=near), Plan(range(12), 1, 4))]
    # rows 4..7 see keys 4-3=1 .. 7; rows 8..11 see 5 .. 11
    assert spans == [(0, 0, 4), (4, 1, 8), (8, 5, 12)]
