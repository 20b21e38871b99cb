"""Widely used text types: padding changes nothing on either side, and neither does a cache of keys and values."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from attn_cli.call import Call
from attn_cli.sources.huggingface.capture import capture
from attn_cli.summaries.matrix import FullMatrix, Matrix
from attn_cli.summaries.reduce import reduce
from tests.coverage.inputs import DECODER_TOKENS, TOKENS
from tests.coverage.test_coverage import WIDELY_USED
from tests.coverage.tiny import tiny_model

NO_TEXT = {"whisper", "clip", "vit", "wav2vec2", "llava", "qwen2_vl", "gemma3"}
# A big_bird puts new attention modules into its place in its first pass on a short text; they have other names.
TEXT = [name for name in WIDELY_USED if name not in NO_TEXT | {"big_bird"}] + ["big_bird@full"]
NAMES = """gpt2 gpt_neo gptj gpt_neox opt bloom falcon falcon@alibi mpt llama mistral mixtral qwen2 qwen3 qwen3_moe
    qwen3_next gemma2 gemma3_text phi3 olmo2 deepseek_v3 gpt_oss smollm3 lfm2"""
DECODERS = NAMES.split()
LONG, SHORT = 12, 8
# float32 in matrices of other sizes, on scores of size 10
TOLERANCE = 1e-5

# (text, module, call): weights [h, n, m]
Seen = dict[tuple[int, str, int], np.ndarray]


def seen(model: PreTrainedModel, **inputs: Any) -> tuple[Seen, Any]:
    found: Seen = {}

    def visit(call: Call) -> None:
        matrix = reduce(call, FullMatrix()).part(Matrix)
        assert matrix is not None and matrix.weights is not None
        found[call.place.text, call.place.name, call.place.call] = matrix.weights

    with torch.no_grad(), capture(model, visit):
        output = model(**inputs)
    return found, output


def batch(model: PreTrainedModel, side: str) -> dict[str, torch.Tensor]:
    """A text of 12 tokens and its first 8, padded on that side."""
    pad = LONG - SHORT
    short = TOKENS[:, :SHORT]
    mask = torch.ones(2, LONG, dtype=torch.long)
    if side == "left":
        ids = torch.cat([TOKENS, torch.cat([torch.zeros(1, pad, dtype=torch.long), short], dim=1)])
        mask[1, :pad] = 0
    else:
        ids = torch.cat([TOKENS, torch.cat([short, torch.zeros(1, pad, dtype=torch.long)], dim=1)])
        mask[1, SHORT:] = 0
    return {"input_ids": ids, "attention_mask": mask} | decoder(model, 2)


def decoder(model: PreTrainedModel, count: int) -> dict[str, torch.Tensor]:
    return {"decoder_input_ids": DECODER_TOKENS.repeat(count, 1)} if model.config.is_encoder_decoder else {}


@pytest.mark.parametrize("name", TEXT)
def test_a_text_padded_on_the_right_is_seen_as_alone(name: str) -> None:
    model = tiny_model(name, "tiny")
    together, _ = seen(model, **batch(model, "right"))
    for text, length in enumerate((LONG, SHORT)):
        ids = TOKENS[:, :length]
        alone, _ = seen(model, input_ids=ids, attention_mask=torch.ones_like(ids), **decoder(model, 1))
        assert alone.keys() == {(0, module, call) for number, module, call in together if number == text}
        for (_, module, call), expected in alone.items():
            found = together[text, module, call]
            if found.shape != expected.shape:  # what pads itself to whole blocks or windows, on the right
                found = found[:, : expected.shape[1], : expected.shape[2]]
            np.testing.assert_allclose(found, expected, atol=TOLERANCE)


@pytest.mark.parametrize("name", [name for name in TEXT if name not in ("longformer", "xlnet")])
def test_a_batch_padded_on_the_left_equals_eagers(name: str) -> None:
    """Equal to eager on the same batch, and not to each text alone: there a type may count positions otherwise."""
    model = tiny_model(name, "tiny")
    inputs = batch(model, "left")
    found, _ = seen(model, **inputs)
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    returned = [x for key in ("attentions", "encoder_attentions") for x in output.get(key) or ()]
    assert returned
    ours = [weights for (text, _, _), weights in found.items() if text == 1]
    for layer in returned:
        expected = layer[1, :, LONG - SHORT :, LONG - SHORT :].numpy()
        assert min(float(np.abs(x - expected).max()) for x in ours if x.shape == expected.shape) <= TOLERANCE


@pytest.mark.parametrize("name", DECODERS)
def test_with_a_cache_the_next_tokens_attend_as_without(name: str) -> None:
    model = tiny_model(name, "tiny")
    whole, _ = seen(model, input_ids=TOKENS, use_cache=False)
    first, output = seen(model, input_ids=TOKENS[:, :SHORT], use_cache=True)
    then, _ = seen(
        model,
        input_ids=TOKENS[:, SHORT:],
        attention_mask=torch.ones(1, LONG, dtype=torch.long),
        past_key_values=output.past_key_values,
        use_cache=True,
    )
    assert first.keys() == then.keys() == whole.keys()
    for place, expected in whole.items():
        np.testing.assert_allclose(first[place], expected[:, :SHORT, :SHORT], atol=TOLERANCE)
        kept = then[place].shape[-1]  # a cache of a window forgets the keys before it
        np.testing.assert_allclose(then[place], expected[:, SHORT:, -kept:], atol=TOLERANCE)
        assert np.abs(expected[:, SHORT:, : LONG - kept]).max(initial=0.0) <= TOLERANCE
