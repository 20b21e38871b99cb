"""Shares by value norm and output norm, against plain NumPy on dense arrays."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_cli.attention_call import AttentionCall, Ingredients
from attn_cli.call import Place
from attn_cli.errors import InputError
from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.mask import causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.summaries.calls.read_shares import By, ReadShares, relative_value_norms, value_norms
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.keys import Overall, OverallKeys, Top, TopKeys
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from attn_cli.summaries.reducers.record import recorded

H, G, N, D, E, WIDTH = 4, 2, 150, 8, 6, 20


def grouped_call(*, projected: bool = True) -> AttentionCall:
    """Causal, four heads over two key heads, with W_O, and with keys of very different lengths of values."""
    random = np.random.default_rng(3)
    q, k, v = (random.normal(size=(heads, N, size)) for heads, size in ((H, D), (G, D), (G, E)))
    v *= random.uniform(0.01, 3, size=(G, N, 1))
    w_o = random.normal(size=(H * E, WIDTH)) if projected else None
    tokens = tuple(Token(at, str(at)) for at in range(N))
    place = Place(0, "attention", tuple(range(H)), (0, 0, 1, 1))
    return AttentionCall(q, k, v, Rule(1.0, mask=causal()), place, tokens, tokens, None, Ingredients(projection=w_o))


def vectors_of(call: AttentionCall, by: By) -> np.ndarray:
    """The vector that every head reads from every key for every query `[h, n, m, ...]`, in the space of the norm."""
    weights = attend(call.q, call.k, call.v, call.rule).weights
    v = np.repeat(call.v, H // G, axis=0)
    if by == "output":
        v = np.stack([v[head] @ call.ingredients.projection[head * E : (head + 1) * E] for head in range(H)])
    else:
        v = np.stack([np.pad(v[head], ((0, 0), (head * E, (H - 1 - head) * E))) for head in range(H)])
    return np.asarray(weights[..., None] * v[:, None, :, :])


@pytest.mark.parametrize("by", ["value", "output"])
@pytest.mark.parametrize("mean", [False, True])
def test_shares_are_those_of_dense_vectors(by: By, mean: bool) -> None:
    call = grouped_call()
    vectors = vectors_of(call, by)
    lengths = np.linalg.norm(vectors, axis=-1)
    lengths = np.sqrt((lengths**2).sum(axis=0, keepdims=True)) if mean else lengths
    expected = lengths / lengths.sum(axis=-1, keepdims=True)
    read = ReadShares(call, by)
    how = {"mean_heads": mean, "by": by}
    matrices = MatrixOf(kinds=("weights", "shares"), **how), MatrixOf((50, 50), kinds=("shares",), **how)
    summary = reduce(read, matrices[0], TopKeys(5, **how), OverallKeys(3, **how), matrices[1])
    matrix, top, overall, pooled = summary.parts
    assert isinstance(matrix, Matrix) and isinstance(top, Top)
    assert isinstance(overall, Overall) and isinstance(pooled, Matrix)
    np.testing.assert_allclose(matrix.shares, expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(top.keys[:, 20:, 0], expected.argmax(axis=-1)[:, 20:])
    np.testing.assert_allclose(top.shares[..., 0], expected.max(axis=-1), rtol=1e-6)
    weights = attend(call.q, call.k, call.v, call.rule).weights
    weights = weights.mean(axis=0, keepdims=True) if mean else weights
    at = np.take_along_axis(weights, top.keys, axis=-1)
    np.testing.assert_allclose(np.where(top.keys < 0, 0, top.weights), np.where(top.keys < 0, 0, at), rtol=1e-6)
    np.testing.assert_array_equal(overall.keys[:, 0], expected.mean(axis=1).argmax(axis=-1))
    np.testing.assert_allclose(overall.shares[:, 0], expected.mean(axis=1).max(axis=-1), rtol=1e-6)
    blocks = expected.reshape(expected.shape[0], 50, 3, 50, 3).max(axis=(2, 4))
    np.testing.assert_allclose(pooled.shares, blocks, rtol=1e-6, atol=1e-12)


def test_a_call_without_w_o_is_refused() -> None:
    with pytest.raises(InputError, match="no W_O"):
        ReadShares(grouped_call(projected=False), "output")


FEW = 9


def call_in(precision: torch.dtype, length: float = 1.0) -> AttentionCall:
    """A causal call of two key heads, whose values have about that length a number."""
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(heads, FEW, D, generator=generator).to(precision) for heads in (H, G, G))
    tokens = tuple(Token(at, str(at)) for at in range(FEW))
    place = Place(0, "attention", tuple(range(H)), (0, 0, 1, 1))
    return AttentionCall(q, k, v * length, Rule(1.0, mask=causal()), place, tokens, tokens)


@pytest.mark.parametrize(("precision", "length"), [(torch.bfloat16, 1.0), (torch.float16, 2e4), (torch.float32, 1.0)])
def test_lengths_of_short_numbers_are_summed_and_kept_in_float32(precision: torch.dtype, length: float) -> None:
    call = call_in(precision, length)
    norms = np.linalg.norm(call.v.double().numpy(), axis=-1)  # [g, m]
    for kind in (call, ReadShares(call, "value"), recorded(call), ReadShares(recorded(call), "value")):
        of_heads, relative = value_norms(kind), relative_value_norms(kind)
        assert of_heads is not None and relative is not None
        np.testing.assert_allclose(of_heads, np.repeat(norms, H // G, axis=0), rtol=1e-6)
        np.testing.assert_allclose(relative, norms / np.median(norms, axis=1)[:, None], rtol=1e-6)


def test_latents_that_each_head_makes_its_own_values_of_are_no_values() -> None:
    call = replace(call_in(torch.float32), ingredients=Ingredients(value_up=torch.ones(H, D, 3)))
    assert value_norms(call) is None
    assert value_norms(ReadShares(call, "value")) is None
    assert recorded(call).value_norms is None
