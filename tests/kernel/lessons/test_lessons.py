"""Lessons: the definition taken apart gives its numbers, costs are counts of cells, rounding is torch's."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.arrays import to_numpy
from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.lessons.cost import LayerSizes
from attn_cli.kernel.lessons.precision import PRECISIONS, precision_of
from attn_cli.kernel.lessons.steps import steps
from tests.strategies import Problem, problems

CLOSE = {"rtol": 1e-12, "atol": 1e-13}  # the same float64 operations


@given(problems(raw=True))
def test_the_last_steps_are_the_definitions(problem: Problem) -> None:
    expected = attend(problem.q, problem.k, problem.v, problem.rule)
    result = {step.name: step.values for step in steps(problem.q, problem.k, problem.v, problem.rule)}
    np.testing.assert_allclose(result["weights"], expected.weights, **CLOSE)
    np.testing.assert_allclose(result["output"], expected.output, **CLOSE)
    before = [name for name in result if name in ("scores", "scaled", "capped", "biased", "masked")][-1]
    if problem.rule.softmax:
        np.testing.assert_allclose(result["weights"] * result["sum"], result["exp"], **CLOSE)
        total = result["weights"].sum(-1, keepdims=True) + result.get("sink weight", 0)
        np.testing.assert_allclose(total, (result["sum"] > 0) * 1.0, **CLOSE)
    np.testing.assert_allclose(result[before], expected.scores, **CLOSE)


@given(problems(raw=True), st.integers(0, 99))
def test_one_row_alone_is_that_row_of_all(problem: Problem, pick: int) -> None:
    row, m = pick % problem.q.shape[1], problem.k.shape[1]
    whole = steps(problem.q, problem.k, problem.v, problem.rule)
    alone = steps(problem.q[:, row : row + 1], problem.k, problem.v, problem.rule.of_rows(row, row + 1, m))
    assert [step.name for step in alone] == [step.name for step in whole]
    for one, all_rows in zip(alone, whole, strict=True):
        np.testing.assert_allclose(to_numpy(one.values)[:, 0], to_numpy(all_rows.values)[:, row], **CLOSE)


TORCH = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
         "float8_e4m3": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}  # fmt: skip
NUMBERS = np.random.default_rng(1).normal(size=2000) * 10.0 ** np.random.default_rng(2).integers(-4, 2, 2000)


@pytest.mark.parametrize("name", TORCH)
def test_rounding_is_torchs(name: str) -> None:
    expected = torch.from_numpy(NUMBERS).float().to(TORCH[name]).double().numpy()
    assert np.array_equal(PRECISIONS[name].rounded(NUMBERS.astype(np.float32).astype(np.float64)), expected)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_widened_numbers_are_recognised(name: str) -> None:
    assert precision_of(torch.from_numpy(NUMBERS).to(TORCH[name]).float().numpy()).name == name


def test_few_round_numbers_and_full_precision_are_not_taken_for_widened() -> None:
    assert precision_of(np.float32([[0.5, 1, 2, 3]])).name == "float32"
    assert precision_of(NUMBERS.astype(np.float32)).name == "float32"
    assert precision_of(NUMBERS).name == "float64"
    assert precision_of(NUMBERS.astype(np.float16)).name == "float16"


sizes = st.integers(1, 6)


@given(st.integers(1, 12), st.integers(0, 12), st.one_of(st.none(), st.integers(1, 14)))
def test_cells_are_those_that_a_mask_leaves_open(n: int, past: int, window: int | None) -> None:
    m = n + past

    def is_open(i: int, j: int) -> bool:
        at = i + m - n
        near = window is None or abs(at - j) < window
        return near and j <= at

    cells = sum(is_open(i, j) for i in range(n) for j in range(m))
    counted = LayerSizes(1, 1, 1, 1, window=window).cells(n, m)
    assert counted == cells


@given(sizes, sizes, sizes, sizes, sizes, st.one_of(st.none(), st.integers(1, 22)), st.integers(1, 20))
def test_the_steps_of_decoding_add_up_to_one_causal_pass(
    g: int, times: int, d: int, e: int, width: int, window: int | None, n: int
) -> None:
    layer = LayerSizes(g * times, g, d, e, width, window=window)
    assert sum(layer.step(tokens) for tokens in range(1, n + 1)) == layer.whole(n)
    assert layer.kept(n) == len([token for token in range(n) if window is None or token >= n - window]) * g * (d + e)


@given(sizes, sizes, sizes, sizes, sizes, sizes, st.integers(1, 20))
def test_a_step_with_latents_counts_every_product(h: int, r: int, p: int, d: int, e: int, width: int, t: int) -> None:
    layer = LayerSizes(h, h, d + p, e, width, rank=r, shared=p)
    made = width * h * (d + p) + width * (r + p)  # W_Q; W_DKV and W_KR
    read = h * d * r + h * t * (r + p) + h * t * r + h * r * e  # q U_Kᵀ, scores, mixing, U_V
    assert layer.step(t) == made + read + h * e * width
    assert layer.kept(t) == t * (r + p)
