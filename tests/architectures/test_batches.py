"""Text types: padding changes nothing on either side, and neither does a cache of keys and values."""

import numpy as np
import pytest

from attn_cli.sources.huggingface.known_types import UNPADDED_ONLY
from tests.architectures.batches import (
    CACHES,
    SHORT,
    cached,
    padded,
    text_inputs,
    weights_and_output,
)
from tests.architectures.check import built
from tests.architectures.inputs import TOKENS
from tests.architectures.overrides import VARIANTS
from tests.architectures.test_survey import WIDELY_USED
from tests.architectures.tiny import each_of, tiny_model, tiny_source

NO_TEXT = {"whisper", "clip", "vit", "wav2vec2", "llava", "qwen2_vl", "gemma3"}
TEXT = [name for name in WIDELY_USED if name not in NO_TEXT]
NAMES = """gpt2 gpt_neo gptj gpt_neox opt bloom falcon falcon@alibi mpt llama mistral mixtral qwen2 qwen3 qwen3_moe
    qwen3_next gemma2 gemma3_text phi3 olmo2 deepseek_v3 gpt_oss smollm3 lfm2 t5 bart marian"""
DECODERS = NAMES.split()
# One of each way to mark padding and to count positions.
DAILY = "bert deberta-v2 xlnet gpt2 bloom llama mistral gemma2 qwen3_next deepseek_v3 gpt_oss t5 bart"
# They count the positions of an encoder's tokens from the left, and nobody can tell them others.
COUNT_FROM_THE_LEFT = {"bart", "marian"}
# float32 in matrices of other sizes, on scores of size 10
TOLERANCE = 1e-5


def small(answer: str) -> bool:
    return answer[:1].isdigit() and float(answer) <= TOLERANCE


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", each_of(TEXT, daily=DAILY))
def test_a_padded_text_is_seen_as_alone(name: str, side: str) -> None:
    model, inputs = built(name)
    answer = padded(model, text_inputs(model, inputs) or {}, side)
    if side == "left" and name in COUNT_FROM_THE_LEFT:
        assert answer.startswith("model's own")
    else:
        assert small(answer), answer


@pytest.mark.parametrize("name", each_of(DECODERS, daily=DAILY))
def test_with_a_cache_the_next_token_attends_as_without(name: str) -> None:
    model, inputs = built(name)
    answer = cached(model, text_inputs(model, inputs) or {})
    assert small(answer), answer


@pytest.mark.parametrize("name", DECODERS[:3])
def test_with_a_cache_several_tokens_attend_as_without(name: str) -> None:
    model = tiny_model(name, "tiny")
    whole, _ = weights_and_output(model, {"input_ids": TOKENS})
    _, output = weights_and_output(model, {"input_ids": TOKENS[:, :SHORT], "use_cache": True})
    cache = next(name for name in CACHES if name in output)
    then, _ = weights_and_output(model, {"input_ids": TOKENS[:, SHORT:], cache: output[cache]})
    for place, expected in whole.items():
        np.testing.assert_allclose(then[place], expected[:, SHORT:], atol=TOLERANCE)


@pytest.mark.parametrize(("name", "texts"), [("bert", 32), ("mobilebert", 1), ("fnet", 1)])
def test_what_padding_misleads_reads_one_text_at_a_time(name: str, texts: int) -> None:
    assert tiny_source(name).batch_size == texts


@pytest.mark.every_type
@pytest.mark.parametrize("kind", sorted(UNPADDED_ONLY))
def test_padding_misleads_what_reads_alone(kind: str) -> None:
    """Nobody reads alone for nothing: the type or a variant of it gives other weights in a padded batch."""
    moved = []
    for name in [kind, *(variant for variant, (base, _) in VARIANTS.items() if base == kind)]:
        model, inputs = built(name)
        text = text_inputs(model, inputs)
        assert text is not None
        try:
            moved.append(not small(padded(model, text, "right")))
        except RuntimeError:  # a text of another length is too much for it
            moved.append(True)
    assert any(moved)
