"""A model with capture on answers as it does without."""

import pytest
import torch
from transformers import LlamaForCausalLM

from attn_cli.selection import Selection
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from tests.architectures.tiny import tiny_model
from tests.sources.huggingface.runs import OTHER, TEXT, encoded, run_captured, run_plain

# Rounding in another order, through 30 layers, on hidden states of size 1 to 100.
TOLERANCE = 1e-4


@pytest.mark.parametrize("selection", [Selection(), Selection(layers=(1,)), Selection(heads=(0,))])
def test_last_hidden_state(real: LoadedModel, selection: Selection) -> None:
    inputs = encoded(real, TEXT)
    with_capture = run_captured(real.model, inputs, selection).outputs.last_hidden_state
    torch.testing.assert_close(with_capture, run_plain(real.model, inputs).last_hidden_state, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("side", ["left", "right"])
def test_last_hidden_state_of_a_padded_batch(real: LoadedModel, side: str) -> None:
    inputs = encoded(real, TEXT, OTHER, side=side)
    counted = inputs["attention_mask"].bool()  # what a model answers at its padding is nobody's business
    with_capture = run_captured(real.model, inputs).outputs.last_hidden_state[counted]
    without = run_plain(real.model, inputs).last_hidden_state[counted]
    torch.testing.assert_close(with_capture, without, atol=TOLERANCE, rtol=0)


def test_logits_of_the_language_model_and_its_answer(smollm: LoadedModel) -> None:
    with torch.device("meta"):
        speaker = LlamaForCausalLM(smollm.model.config)
    speaker.model, speaker.lm_head.weight = smollm.model, smollm.model.embed_tokens.weight  # they are tied
    inputs = encoded(smollm, "The capital of France is")
    with_capture, without = run_captured(speaker, inputs).outputs.logits, run_plain(speaker, inputs).logits
    torch.testing.assert_close(with_capture, without, atol=TOLERANCE, rtol=0)
    assert smollm.tokenizer.decode(with_capture[0, -1].argmax()) == " Paris"


def test_rows_of_padding_that_later_layers_read_are_those_of_sdpa() -> None:
    """MiniMax M3 chooses blocks by padding, too, whose rows attend to nothing: zeros, but even rows under eager."""
    model, ids = tiny_model("minimax_m3_vl_text", "tiny"), torch.arange(5, 17).repeat(2, 1)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    inputs["attention_mask"][1, :4] = 0
    counted, found = inputs["attention_mask"].bool(), {}
    for name in ("eager", "sdpa"):
        model.set_attn_implementation(name)
        found[name] = run_plain(model, inputs)[0][counted]
        found[f"{name} seen"] = run_captured(model, inputs).outputs[0][counted]
    assert (found["eager"] - found["sdpa"]).abs().max() > 0.1
    for name in ("eager seen", "sdpa seen"):
        torch.testing.assert_close(found[name], found["sdpa"], atol=TOLERANCE, rtol=0)
