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
from attn_cli.summaries.answers.learn import Example, descend, slope
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


@st.composite
def lessons(draw: st.DrawFn) -> tuple[list[Example], np.ndarray, np.ndarray, int]:
    """A few texts of any length, each with a query and one or more targets, and random projections."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    heads, e, d = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    examples = []
    for _ in range(draw(st.integers(1, 3))):
        n = draw(st.integers(1, 7))
        targets = draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=3))
        examples.append(Example(rng.normal(size=(n, d)), draw(st.integers(0, n - 1)), tuple(sorted(targets))))
    return examples, rng.normal(size=(d, heads * e)), rng.normal(size=(d, heads * e)), heads


def torch_loss(examples: list[Example], wq: torch.Tensor, wk: torch.Tensor, heads: int) -> torch.Tensor:
    """The same loss in torch's words, with torch's own attention weights."""
    losses = []
    for example in examples:
        x = torch.from_numpy(example.x)
        q, k = ((x @ w).unflatten(-1, (heads, -1)).transpose(0, 1) for w in (wq, wk))
        one_hot = torch.eye(len(x), dtype=x.dtype).expand(heads, -1, -1)
        weights = torch.nn.functional.scaled_dot_product_attention(q, k, one_hot)
        losses.append(-weights[:, example.query, list(example.targets)].sum(-1).log())
    return torch.stack(losses).mean()


@given(lessons())
def test_gradients_equal_autograd(lesson: tuple[list[Example], np.ndarray, np.ndarray, int]) -> None:
    examples, wq, wk, heads = lesson
    ours = slope(examples, wq, wk, heads)
    a, b = (torch.tensor(w, requires_grad=True) for w in (wq, wk))
    theirs = torch_loss(examples, a, b, heads)
    theirs.backward()
    assert ours.loss == pytest.approx(theirs.item(), abs=1e-9)
    assert a.grad is not None and b.grad is not None
    assert np.allclose(ours.by_wq, a.grad.numpy(), atol=1e-9)
    assert np.allclose(ours.by_wk, b.grad.numpy(), atol=1e-9)


@given(lessons())
def test_the_first_step_of_a_chosen_rate_goes_down(lesson: tuple[list[Example], np.ndarray, np.ndarray, int]) -> None:
    examples, wq, wk, heads = lesson
    here = slope(examples, wq, wk, heads)
    result = descend(examples, wq, wk, heads, steps=1)
    assert result.losses[0] == here.loss
    assert np.allclose(result.wq, wq - result.rate * here.by_wq)
    promised = (here.by_wq**2).sum() + (here.by_wk**2).sum()
    assert result.losses[1] <= here.loss - result.rate * promised / 2 + 1e-12


def test_a_weight_that_rounds_to_zero_is_no_trap() -> None:
    examples = [Example(np.array([[100.0, 0.0], [0.0, 100.0]]), 0, (1,))]  # scores 7071 and 0
    result = descend(examples, np.eye(2), np.eye(2), 1, steps=50)
    assert np.isfinite(result.losses).all()
    assert result.losses[0] > 700
    assert result.losses[-1] < result.losses[0]
