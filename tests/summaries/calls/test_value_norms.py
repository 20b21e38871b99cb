"""Lengths of values, live and recorded, against plain NumPy in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_cli.attention_call import AttentionCall, Ingredients
from attn_cli.call import Place
from attn_cli.kernel.definition.mask import causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.summaries.calls.read_shares import ReadShares, relative_value_norms, value_norms
from attn_cli.summaries.reducers.record import recorded

H, G, N, D = 4, 2, 9, 8


def call_in(precision: torch.dtype, length: float = 1.0) -> AttentionCall:
    """A causal call of two key heads, whose values have about that length a number."""
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(heads, N, D, generator=generator).to(precision) for heads in (H, G, G))
    tokens = tuple(Token(at, str(at)) for at in range(N))
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
