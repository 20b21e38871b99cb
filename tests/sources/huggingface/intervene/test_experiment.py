"""Interventions equal whole passes in which W_O's input is cut, or in which the mask is written out."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

from attn_cli.call import Look
from attn_cli.model.intervention import Change, HeadPlace
from attn_cli.prompt import Prompt
from attn_cli.selection import ALL
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.parts.answer import read_parts
from attn_cli.summaries.parts.text_parts import parts_of
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.matrix import MatrixOf
from tests.architectures.tiny import each_of
from tests.loaded import load_once
from tests.sources.huggingface.intervene.oracle import Silenced, log2_p, prompt_of, speaking_source
from tests.summaries.parts.test_answer import eager_weights, effects_of, hidden_keys, masked_log2_p, rows_of

# kind: the path of W_O in block {}, and how many heads
OUTPUTS = {
    "llama": "model.layers.{}.self_attn.o_proj",
    "mistral": "model.layers.{}.self_attn.o_proj",
    "gemma2": "model.layers.{}.self_attn.o_proj",
    "gpt_oss": "model.layers.{}.self_attn.o_proj",
    "deepseek_v3": "model.layers.{}.self_attn.o_proj",
    "gpt_neox": "gpt_neox.layers.{}.attention.dense",
    "gptj": "transformer.h.{}.attn.out_proj",
    "bloom": "transformer.h.{}.self_attention.dense",
    "olmo2": "model.layers.{}.self_attn.o_proj",
    "jamba": "model.layers.{}.self_attn.o_proj",
}


@pytest.fixture(scope="module")
def smollm(smollm_file: Any) -> ModelSource:
    return ModelSource(load_once(find(str(smollm_file), OriginOptions(predicts=True))))


def bits_of_oracle(source: ModelSource, prompt: Prompt, head: HeadPlace, rows: Any, path: str, h: int) -> float:
    """log2 p of the likeliest next token, silenced less plain."""
    model, arguments = source.loaded.generating, source.reader.arguments([prompt])
    assert model is not None
    plain = log2_p(model, arguments)[-1]
    with Silenced(model, [head], {head.layer: path.format(head.layer)}, h, rows):
        silenced = log2_p(model, arguments)[-1]
    best = int(plain.argmax())
    return float(silenced[best] - plain[best])


def test_the_heads_that_paris_rests_on(smollm: ModelSource) -> None:
    prompt = smollm.read(["The capital of France is"])[0]
    experiment = smollm.experiment(prompt)
    assert experiment.target is not None
    assert experiment.target.tokens[0].text.strip() == "Paris"
    assert experiment.target.probability == pytest.approx(0.773, abs=5e-4)
    heads = [HeadPlace(23, 4), HeadPlace(12, 0), HeadPlace(12, 4), HeadPlace(11, 0)]
    outcomes = list(experiment.outcomes([Change((head,)) for head in heads]))
    assert [outcome.bits for outcome in outcomes] == pytest.approx([-2.40, -0.65, -0.20, 0.18], abs=6e-3)
    for head, outcome in zip(heads[:2], outcomes[:2], strict=True):
        oracle = bits_of_oracle(smollm, prompt, head, [4], OUTPUTS["llama"], 9)
        assert outcome.bits == pytest.approx(oracle, abs=1e-4)
    everywhere = smollm.experiment(prompt, everywhere=True)
    kl = [x.kl_bits for x in everywhere.outcomes([Change((HeadPlace(23, 4),)), Change((HeadPlace(0, 4),))])]
    assert kl == pytest.approx([1.733, 1.334], abs=6e-4)
    (outcome,) = everywhere.outcomes([Change((HeadPlace(0, 4),))])
    oracle = bits_of_oracle(smollm, prompt, HeadPlace(0, 4), None, OUTPUTS["llama"], 9)
    assert outcome.bits == pytest.approx(oracle, abs=1e-4)


NOTES = """The ferry to Bergen leaves at seven.
The clerk keeps a parrot called Solomon.
Answer: The parrot is called"""


@pytest.mark.parametrize("everywhere", [False, True])
def test_parts_of_a_real_text_are_sums_of_eager_weights_and_masked_keys(smollm: ModelSource, everywhere: bool) -> None:
    prompt = smollm.read([NOTES])[0]
    parts = parts_of(prompt, "lines")
    answer = read_parts(smollm, prompt, parts, everywhere=everywhere)
    rows, n = parts[-1].tokens, len(prompt.tokens)
    assert answer["answer"][0]["token"].strip() == "Solomon"
    weights = eager_weights(smollm, prompt)
    for part, row in zip(parts, rows_of(answer), strict=True):
        share = np.mean([layer[:, rows][:, :, part.tokens].sum(-1).mean() for layer in weights])
        assert row["share"] == pytest.approx(share, abs=1e-5)
    best, plain = answer["answer"][0]["id"], masked_log2_p(smollm, prompt, (), ())
    for part, effect in zip(parts, effects_of(answer), strict=True):
        after = range(part.tokens[-1] + 1, n)
        hidden = masked_log2_p(smollm, prompt, after if everywhere else rows, hidden_keys(answer, part))
        assert effect == pytest.approx(float(hidden[best] - plain[best]), abs=1e-4), part.name
    assert answer["run"][0]["run_mode"] == "cache" and answer["parts"][0]["part"] == 1


@pytest.mark.parametrize("kind", ["llama", "gpt_oss", "gptj", "bloom"])  # by the registry, with sinks, from own code
def test_who_looks_at_the_baseline_sees_what_a_pass_shows(kind: str) -> None:
    source, prompt = speaking_source(kind), prompt_of()
    seen, shown = list[Summary](), list[Summary]()
    experiment = source.experiment(prompt, look=Look(ALL, lambda call: seen.append(reduce(call, MatrixOf()))))
    source.each([prompt], ALL, lambda call: shown.append(reduce(call, MatrixOf())))
    assert experiment.visited and experiment.target is not None
    assert [(x.place, x.rule) for x in seen] == [(x.place, x.rule) for x in shown]
    for ours, theirs in zip(seen, shown, strict=True):
        np.testing.assert_allclose(ours.parts[0].arrays()["weights"], theirs.parts[0].arrays()["weights"], atol=1e-6)


@pytest.mark.parametrize("kind", each_of(OUTPUTS, daily="llama gpt_oss gptj bloom jamba"))
@pytest.mark.parametrize("everywhere", [False, True])
def test_a_silenced_head_is_0_in_what_w_o_reads(kind: str, everywhere: bool) -> None:
    source, prompt = speaking_source(kind), prompt_of()
    experiment = source.experiment(prompt, everywhere=everywhere)
    heads = [head for layer in experiment.layers for head in layer.heads]
    outcomes = list(experiment.outcomes([Change((head,)) for head in heads]))
    rows = None if everywhere else [len(prompt.tokens) - 1]
    for head, outcome in list(zip(heads, outcomes, strict=True))[1::2]:
        oracle = bits_of_oracle(source, prompt, head, rows, OUTPUTS[kind], len(experiment.layers[0].groups))
        assert outcome.bits == pytest.approx(oracle, abs=1e-4), head
    assert max(abs(outcome.effect) for outcome in outcomes) > 0.01
    assert experiment.noise < 1e-4


@pytest.mark.parametrize("own", [None, False, True])
def test_heads_of_sdpa_whose_texts_and_heads_share_an_axis(own: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    source, prompt = speaking_source("gpt2"), prompt_of()
    heads = [Change((HeadPlace(layer, head),), hidden=(2,)) for layer in (0, 1) for head in (0, 3)]
    usual = [outcome.bits for outcome in source.experiment(prompt, everywhere=True).outcomes(heads)]

    def with_three_axes(self: Any, hidden_states: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, None]:
        b, n, _width = hidden_states.shape
        q, k, v = (x.unflatten(-1, (4, -1)).transpose(1, 2) for x in self.c_attn(hidden_states).chunk(3, -1))
        if own is not None:
            q, k, v = (x.flatten(0, 1) for x in (q, k, v))
        output = functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # [b * 4, n, d]
        return self.c_proj(output.reshape(b, 4, n, -1).transpose(1, 2).flatten(2)), None

    monkeypatch.setattr(GPT2Attention, "forward", with_three_axes)
    if own is False:
        for block in source.loaded.model.h:
            block.attn.num_heads = None  # its texts tell
    found = source.experiment(prompt, everywhere=True)
    assert [outcome.bits for outcome in found.outcomes(heads)] == pytest.approx(usual, abs=1e-4)
    assert max(map(abs, usual)) > 0.01 and found.noise < 1e-4


# (stream, path of W_O in block {})
HALVES = {
    "bart": {
        "encoder": "model.encoder.layers.{}.self_attn.out_proj",
        "decoder": "model.decoder.layers.{}.self_attn.out_proj",
        "cross": "model.decoder.layers.{}.encoder_attn.out_proj",
    },
    "t5": {
        "encoder": "encoder.block.{}.layer.0.SelfAttention.o",
        "decoder": "decoder.block.{}.layer.0.SelfAttention.o",
        "cross": "decoder.block.{}.layer.1.EncDecAttention.o",
    },
}


@pytest.mark.parametrize("kind", HALVES)
def test_heads_of_every_stream_of_an_encoder_decoder(kind: str) -> None:
    source, prompt = speaking_source(kind), prompt_of(decoder=(12, 24, 36, 48, 60))
    experiment = source.experiment(prompt)
    assert experiment.rows == (4,)
    for stream, path in HALVES[kind].items():
        head = HeadPlace(1, 1, stream)
        (outcome,) = experiment.outcomes([Change((head,))])
        h = len(experiment.layers[0].groups)
        rows = None if stream == "encoder" else [4]
        assert outcome.bits == pytest.approx(bits_of_oracle(source, prompt, head, rows, path, h), abs=1e-4)
        assert abs(outcome.bits or 0) > 1e-3


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_head_set_to_its_mean_over_the_other_rows(everywhere: bool) -> None:
    source, prompt, head = speaking_source("llama"), prompt_of(tuple(range(9, 29))), HeadPlace(0, 2)
    experiment = source.experiment(prompt, everywhere=everywhere, mean=True)
    (outcome,) = experiment.outcomes([Change((head,))])
    model, arguments = source.loaded.generating, source.reader.arguments([prompt])
    assert model is not None

    def to_mean(_: torch.nn.Module, args: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        x = args[0].clone()
        own = slice(head.head * x.shape[-1] // 4, (head.head + 1) * x.shape[-1] // 4)
        for row in range(20) if everywhere else [19]:
            x[0, row, own] = torch.stack([args[0][0, other, own] for other in range(20) if other != row]).mean(0)
        return (x,)

    plain = log2_p(model, arguments)[-1]
    handle = model.get_submodule(OUTPUTS["llama"].format(0)).register_forward_pre_hook(to_mean)
    changed = log2_p(model, arguments)[-1]
    handle.remove()
    best = int(plain.argmax())
    assert outcome.bits == pytest.approx(float(changed[best] - plain[best]), abs=1e-4)


def test_the_cheapest_way_that_is_right() -> None:
    """From the cache, attn's or the model's own, where it reproduces the full pass; else blocks are skipped."""
    ways = dict.fromkeys(("llama", "bloom", "jamba", "qwen3_next", "doge"), "cache")
    ways |= dict.fromkeys(("bert-generation", "nemotron_h", "xlnet"), "prefix")
    assert {kind: speaking_source(kind).experiment(prompt_of()).run_mode for kind in ways} == ways


def test_rows_before_those_that_run_are_run_with_them() -> None:
    """An intervention may name rows that the cache has no room for."""
    source, prompt = speaking_source("llama"), prompt_of()
    early = Change(hidden=(1, 2), rows=tuple(range(3, 12)))
    (kept,) = source.experiment(prompt).outcomes([early])
    (whole,) = source.experiment(prompt, everywhere=True).outcomes([early])
    assert kept.bits == pytest.approx(whole.bits, abs=1e-5)
    assert abs(whole.bits or 0) > 1e-3


def test_the_loss_of_the_text_is_that_of_its_own_tokens() -> None:
    source, prompt, head = speaking_source("llama"), prompt_of(), HeadPlace(1, 1)
    (outcome,) = source.experiment(prompt, everywhere=True).outcomes([Change((head,))], with_loss=True)
    model, arguments = source.loaded.generating, source.reader.arguments([prompt])
    assert model is not None
    plain = log2_p(model, arguments)
    with Silenced(model, [head], {1: OUTPUTS["llama"].format(1)}, 4, None):
        silenced = log2_p(model, arguments)
    ids = torch.tensor([token.id for token in prompt.tokens[1:]])[:, None]
    change = plain[:-1].gather(1, ids).mean() - silenced[:-1].gather(1, ids).mean()
    assert outcome.loss_bits == pytest.approx(float(change), abs=1e-4)


def test_heads_of_an_encoder_equal_passes_whose_w_o_reads_zeros(minilm: LoadedModel) -> None:
    """Its columns set to 0 by a pre-hook on the dense layer after attention; the mean vector."""
    source = ModelSource(minilm)
    prompt = source.read(["The parrot sat on the river bank and sang."])[0]
    arguments = source.reader.arguments([prompt])
    experiment = source.experiment(prompt)
    heads = [HeadPlace(0, 2), HeadPlace(2, 9), HeadPlace(5, 7)]

    def vectors() -> torch.Tensor:
        with torch.no_grad():
            return minilm.model(**arguments).last_hidden_state[0].double().mean(0)

    plain = vectors()
    outcomes = experiment.outcomes([Change((head,)) for head in heads])
    for head, outcome in zip(heads, outcomes, strict=True):
        with Silenced(
            minilm.model, [head], {head.layer: f"encoder.layer.{head.layer}.attention.output.dense"}, 12, None
        ):
            turned = 1 - float(torch.cosine_similarity(plain, vectors(), dim=0))
        assert outcome.cosine_distance == pytest.approx(turned, abs=1e-6) and turned > 1e-5, head
