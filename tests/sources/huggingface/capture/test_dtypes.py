"""Half precision models: scores and softmax are computed in float32 and come out as float32."""

import numpy as np
import pytest
import torch

from attn_cli import capture
from attn_cli.weights_call import WeightsCall
from tests.architectures.tiny import tiny_model
from tests.sources.huggingface.models import KINDS, sentence, tiny
from tests.sources.huggingface.runs import run_captured, run_plain

# Eager computes scores in the model's precision: 8 bits of mantissa on scores of size 10 (bfloat16), 11 bits (float16).
TOLERANCE = {torch.bfloat16: 0.08, torch.float16: 0.01}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_every_kind_runs_in_half_precision(kind: str, dtype: torch.dtype) -> None:
    model = tiny(kind).to(dtype)
    run = run_captured(model, sentence(model))
    assert run.outputs[0].dtype == dtype
    assert torch.isfinite(run.outputs[0]).all()
    first = run.summaries[0].place
    expected = run_plain(model, sentence(model), output_attentions=True)
    eager = (expected.encoder_attentions if model.config.is_encoder_decoder else expected.attentions)[0][0]
    weights = run.weights(first.layer, stream=first.stream)
    np.testing.assert_allclose(weights, eager.float().numpy(), atol=TOLERANCE[dtype])


# With attention of their own: masks added before and after the scale, in float32 and the model's type, and none.
OWN_CODE = {"bloom": True, "codegen": True, "gptj": True, "mpt": True, "deberta": False, "xlnet": False}


@pytest.mark.parametrize("kind", OWN_CODE)
@pytest.mark.parametrize("dtype", [*TOLERANCE, torch.float32])
def test_weights_of_own_code_are_taken_as_the_model_rounds_them_and_what_it_masks_is_masked(
    kind: str, dtype: torch.dtype
) -> None:
    model = tiny_model(kind, "tiny").to(dtype)
    calls: list[WeightsCall] = []
    with torch.no_grad(), capture(model, calls.append):  # type: ignore[arg-type]
        model(input_ids=torch.arange(1, 7)[None])
    later = torch.ones(6, 6, dtype=torch.bool).triu(1) & OWN_CODE[kind]
    for call in calls:
        assert call.weights.sum(-1).numpy() == pytest.approx(1.0, abs=max(torch.finfo(dtype).eps, 1e-6))
        assert torch.equal(call.scores == -torch.inf, later.expand(call.h, 6, 6))
    assert len(calls) > 1


def test_low_scores_of_a_model_with_weights_of_8_bits_are_no_masked_ones() -> None:
    model = tiny_model("deberta", "tiny")
    with torch.no_grad():
        for module in model.modules():
            if hasattr(module, "in_proj"):
                module.in_proj.weight.mul_(30)
    plain, packed = [], []
    ids = torch.arange(1, 7)[None]
    with torch.no_grad(), capture(model, plain.append):
        model(input_ids=ids)
    for module in model.modules():  # as of quantised layers: the lowest float of 8 bits is -448
        quantised = torch.nn.Parameter(torch.zeros(1).to(torch.float8_e4m3fn), requires_grad=False)
        module._parameters = {"quantised": quantised, **module._parameters}
    with torch.no_grad(), capture(model, packed.append):
        model(input_ids=ids)
    assert min(float(call.scores.min()) for call in plain) < -448
    for one, other in zip(plain, packed, strict=True):
        assert torch.isfinite(other.scores).all()
        assert torch.equal(one.scores, other.scores)
        assert torch.equal(one.weights, other.weights)
