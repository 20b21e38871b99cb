"""Widely used architectures: what is seen of them, padded, from a cache and loaded again, is what they return."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from attn_cli.call import Call
from attn_cli.errors import LoadError
from attn_cli.model.intervention import Change
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.load.checkpoint import load
from attn_cli.sources.huggingface.load.model_classes import generating_class
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.architectures.batches import cached, padded, text_inputs
from tests.architectures.check import EXACT, Result, built, check, is_taken_for_an_encoder
from tests.architectures.knock import knock_from_cache, prompt_of, speaking
from tests.architectures.layouts import CLOSE
from tests.architectures.tiny import each_of, every_type, tiny_source
from tests.architectures.w_o import w_o_found

_NAMES = """
bert roberta distilbert albert electra deberta-v2 modernbert xlnet big_bird gpt2 gpt_neo gptj gpt_neox opt
bloom falcon falcon@alibi mpt llama mistral mixtral qwen2 qwen3 qwen3_moe qwen3_next gemma2 gemma3_text gemma3 phi3
olmo2 deepseek_v3 deepseek_v32 gpt_oss smollm3 lfm2 t5 bart marian whisper clip vit wav2vec2 llava qwen2_vl
"""
WIDELY_USED = _NAMES.split()


@pytest.mark.parametrize("name", WIDELY_USED)
def test_a_widely_used_type(name: str) -> None:
    result = check(name, batches=False)
    assert result.verdict == "equal", result
    assert result.difference is not None and result.difference <= EXACT
    assert result.output is not None and result.output <= CLOSE
    assert result.scores is not None and result.scores <= EXACT, result


@pytest.mark.parametrize(
    ("name", "knock", "w_o"),
    [("llama", "cache", "found"), ("qwen3_next", "cache", "no: no matrix is given what heads give"),
     ("t5", "prefix", "found"), ("fsmt", "prefix", "no: weights without values")],
)  # fmt: skip
def test_columns_of_what_heads_do(name: str, knock: str, w_o: str) -> None:
    """Ablation of heads against whole passes; W_O found."""
    model, inputs = built(name)
    text = text_inputs(model, inputs)
    assert text is not None
    found = knock_from_cache(deepcopy(model), text)
    assert found.partition(":")[0] == knock and "differs" not in found
    assert w_o_found(model, inputs) == w_o


_LARGE = [
    pytest.param(name, marks=pytest.mark.every_type) for name in ("emu3", "janus", "kyutai_speech_to_text", "vibevoice")
]


@pytest.mark.parametrize("name", ["csm", "blip-2", *_LARGE])
def test_a_decoder_beside_a_tower_with_an_encoder_and_a_decoder_is_no_encoder(name: str) -> None:
    """Their codecs and image tokenizers have both; hiding from the stack of text what it reads changes what it says."""
    model, inputs = built(name)
    streams = {place.stream for place in ModulePlaces(model).attending}
    assert {"self", "text"} & streams and "encoder" not in streams
    assert is_taken_for_an_encoder(model, {"encoder"}) and not is_taken_for_an_encoder(model, streams)
    text = text_inputs(model, inputs)
    if text is None:  # it reads codes of audio, or an image beside its text
        return
    experiment = speaking(model).experiment(prompt_of(text))
    for outcome in experiment.outcomes([Change(hidden=(1, 2, 3, 4)), Change(hidden=tuple(range(1, 11)))]):
        assert outcome.kl_bits is not None and outcome.kl_bits > 0.01


def small(answer: str) -> bool:
    return answer[:1].isdigit() and float(answer) <= CLOSE


@pytest.mark.parametrize("name", ["mamba", "fnet", "rwkv"])
def test_a_type_without_softmax_attention(name: str) -> None:
    assert check(name) == Result(name, "no attention", output=0.0)


def test_a_model_that_reads_no_text_and_attends_to_nothing_says_the_latter() -> None:
    with pytest.raises(LoadError, match=r"tiny-mobilenet_v1 \(mobilenet_v1\) has no softmax attention"):
        tiny_source("mobilenet_v1").read(["a text"])


def weights_and_output(name: str) -> tuple[dict[str, np.ndarray], object]:
    """The weights of every module as `attn` shows them, and the model's output with its attention."""
    model, inputs = built(name)
    by_module: dict[str, np.ndarray] = {}

    def visit(call: Call) -> None:
        matrix = reduce(call, MatrixOf()).part(Matrix)
        assert matrix is not None and matrix.weights is not None
        by_module[call.place.name] = matrix.weights

    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
        with capture(model, visit):
            model(**inputs)
    return by_module, output


@pytest.mark.parametrize("name", ["granite_swa", "granitemoe_swa"])
def test_granites_weights_are_its_softmax_less_what_the_sink_takes(name: str) -> None:
    by_module, output = weights_and_output(name)
    for weights, returned in zip(by_module.values(), output.attentions, strict=True):  # type: ignore[attr-defined]
        assert weights.sum(-1).min() < 0.9  # the sink takes enough to show
        scaled = weights / weights.sum(-1, keepdims=True)
        np.testing.assert_allclose(scaled, returned[0].numpy(), atol=EXACT)


def test_wavlm_returns_the_mean_over_heads() -> None:
    by_module, output = weights_and_output("wavlm")
    for weights, returned in zip(by_module.values(), output.attentions, strict=True):  # type: ignore[attr-defined]
        np.testing.assert_allclose(weights.mean(axis=0), returned[0, 0].numpy(), atol=EXACT)


def test_t5gemma2_attends_to_both_halves_at_once() -> None:
    by_module, output = weights_and_output("t5gemma2")
    decoder = [weights for name, weights in by_module.items() if name.startswith(("decoder", "model.decoder"))]
    both = zip(output.decoder_attentions, output.cross_attentions, strict=True)  # type: ignore[attr-defined]
    for weights, halves in zip(decoder, both, strict=True):
        np.testing.assert_allclose(weights, torch.cat(halves, dim=-1)[0].numpy(), atol=EXACT)


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


def unmoved(answer: str) -> bool:
    return answer[:1].isdigit() and float(answer) <= TOLERANCE


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", each_of(TEXT, daily=DAILY))
def test_a_padded_text_is_seen_as_alone(name: str, side: str) -> None:
    model, inputs = built(name)
    answer = padded(model, text_inputs(model, inputs) or {}, side)
    if side == "left" and name in COUNT_FROM_THE_LEFT:
        assert answer.startswith("model's own")
    else:
        assert unmoved(answer), answer


@pytest.mark.parametrize("name", each_of(DECODERS, daily=DAILY))
def test_with_a_cache_the_next_token_attends_as_without(name: str) -> None:
    model, inputs = built(name)
    answer = cached(model, text_inputs(model, inputs) or {})
    assert unmoved(answer), answer


@pytest.mark.parametrize(("name", "texts"), [("bert", 32), ("mobilebert", 1), ("fnet", 1)])
def test_what_padding_misleads_reads_one_text_at_a_time(name: str, texts: int) -> None:
    assert tiny_source(name).batch_size == texts


# Each states its sizes in a way of its own: by layer, by stack, as several stacks of text, under other names.
_WAYS = ("gpt2", "musicgen", "funnel")


@pytest.mark.parametrize("name", [name for name in _WAYS if name in every_type()])
def test_a_type_with_sizes_in_its_own_way(name: str, tmp_path: Path) -> None:
    model, _ = built(name)
    check_reloaded(model, tmp_path)


def check_reloaded(model: PreTrainedModel, folder: Path) -> None:
    """Save, and load by the folder alone."""
    model.save_pretrained(folder)
    origin = find(str(folder), OriginOptions(reads_text=False))
    saved, read = model.state_dict(), load(origin).model
    loaded = read.state_dict()
    prefixes = {f"{of.base_model_prefix}." for of in (model, read)}  # Llama 4's two classes disagree
    spellings = {key: (key, *(p + key for p in prefixes), *(key.removeprefix(p) for p in prefixes)) for key in loaded}
    names = {key: next((name for name in spellings[key] if name in saved), None) for key in loaded}
    assert sum(name is None for name in names.values()) <= 2, names  # of a pooler that the saved class lacks
    for key, name in names.items():
        if name is not None:
            np.testing.assert_array_equal(loaded[key].float(), saved[name].float(), err_msg=key)
    if generating_class(model.config) is not None:
        assert load(origin, generates=True).generating is not None
