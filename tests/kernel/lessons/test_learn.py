"""The gradient written by hand equals torch's autograd; descent goes down."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.kernel.lessons.learn import Example, descend, slope


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


def test_descent_is_steps_of_autograd() -> None:
    rng = np.random.default_rng(0)
    examples = [Example(rng.normal(size=(4, 6)), 2, (3,)), Example(rng.normal(size=(5, 6)), 0, (1, 4))]
    wq, wk = rng.normal(size=(2, 6, 6))
    result = descend(examples, wq, wk, 2, steps=20)
    parameters = [torch.tensor(w, requires_grad=True) for w in (wq, wk)]
    optimizer = torch.optim.SGD(parameters, lr=result.rate)
    for step in range(21):
        optimizer.zero_grad()
        loss = torch_loss(examples, *parameters, 2)
        assert result.losses[step] == pytest.approx(loss.item(), abs=1e-9)
        loss.backward()
        if step < 20:
            optimizer.step()
    assert np.allclose(result.wq, parameters[0].detach().numpy())
    assert np.allclose(result.wk, parameters[1].detach().numpy())


def test_a_weight_that_rounds_to_zero_is_no_trap() -> None:
    examples = [Example(np.array([[100.0, 0.0], [0.0, 100.0]]), 0, (1,))]  # scores 7071 and 0
    result = descend(examples, np.eye(2), np.eye(2), 1, steps=50)
    assert np.isfinite(result.losses).all()
    assert result.losses[0] > 700
    assert result.losses[-1] < result.losses[0]
