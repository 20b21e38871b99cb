"""Interventions equal whole passes in which W_O's input is cut, or in which the mask is written out."""

from math import log
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
from attn_cli.sources import open_source
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.matrix import MatrixOf
from tests.architectures.tiny import each_of, tiny_model
from tests.media import tokenizer
from tests.sources.huggingface.intervene.oracle import Silenced, log2_p, prompt_of, speaking_source

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


def bits_of_oracle(source: ModelSource, prompt: Prompt, head: HeadPlace, rows: Any, path: str, h: int) -> float:
    """log2 p of the likeliest next token, silenced less plain."""
    model, arguments = source.loaded.generating, source.reader.arguments([prompt])
    assert model is not None
    plain = log2_p(model, arguments)[-1]
    with Silenced(model, [head], {head.layer: path.format(head.layer)}, h, rows):
        silenced = log2_p(model, arguments)[-1]
    best = int(plain.argmax())
    return float(silenced[best] - plain[best])


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
    source, prompt = speaking_source("llama"), prompt_of()
    early = Change(hidden=(1, 2), rows=tuple(range(3, 12)))  # for which the cache has no room
    assert source.experiment(prompt).layers[0].groups == (0, 0, 1, 1)
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


TEXT = "the cat sat on a photo"


@pytest.fixture(scope="module", params=["llama", "gemma2", "gpt2", "gpt_oss"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model with grouped heads, a softcap and windows, learned positions, or sinks."""
    folder = tmp_path_factory.mktemp("estimates") / request.param
    tiny_model(request.param, "tiny").save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def test_they_are_the_slopes_of_the_whole_model_near_its_own_heads(folder: str) -> None:

    source = open_source(folder, predicts=True)
    assert isinstance(source, ModelSource)
    prompt = source.read([TEXT])[0]
    row = len(prompt.tokens) - 1
    experiment = source.experiment(prompt, (row,))
    estimates = experiment.estimated_effects()
    heads = [head for layer in experiment.layers for head in layer.heads]
    assert set(estimates) == set(heads)
    target = experiment.target
    assert target is not None
    for layer in experiment.layers:
        slopes = _slopes(source, layer.layer, len(layer.heads), row, prompt, int(target.tokens[0].id or 0))
        for head, slope in zip(layer.heads, slopes, strict=True):
            assert estimates[head] == pytest.approx(-slope / log(2), rel=2e-3, abs=2e-3)
    assert experiment.noise == 0.0  # nothing else ran


def _slopes(source: ModelSource, layer: int, heads: int, row: int, prompt: Prompt, target: int) -> list[float]:
    """The derivatives of log p by the heads of a layer, by the central difference of two whole runs a head."""

    model = source.loaded.generating
    assert model is not None
    outputs = {name: module for name, module in model.named_modules()
               if name.endswith(("o_proj", "c_proj")) and "attn" in name}  # fmt: skip
    own = [module for name, module in outputs.items() if f".{layer}." in name]
    ids = torch.tensor([[token.id for token in prompt.tokens]])
    slopes = []
    for head in range(heads):
        values = []
        for more in (5e-3, -5e-3):

            def scaled(
                module: torch.nn.Module, inputs: tuple[torch.Tensor], more: float = more, head: int = head
            ) -> torch.Tensor:
                x = inputs[0].clone()
                factors = torch.full((heads,), 0.9)
                factors[head] += more if any(module is each for each in own) else 0.0
                x[..., row, :] *= factors.repeat_interleave(x.shape[-1] // heads)
                return x

            hooks = [module.register_forward_pre_hook(scaled) for module in outputs.values()]
            with torch.no_grad():
                values.append(float(model(input_ids=ids, use_cache=False).logits[0, row].log_softmax(-1)[target]))
            for hook in hooks:
                hook.remove()
        slopes.append((values[0] - values[1]) / 1e-2)
    return slopes
