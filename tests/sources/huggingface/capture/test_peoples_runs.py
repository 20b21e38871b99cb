"""What people do in their own runs of a transformers model goes on as without capture, and is shown as it is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, LlamaConfig, LlamaForCausalLM, StaticCache
from transformers.masking_utils import eager_mask
from transformers.models.llama import modeling_llama

from attn_cli import MatrixOf, capture, reduce
from attn_cli.call import Call
from attn_cli.errors import LoadError
from attn_cli.selection import ALL
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.read.reader import PromptReader
from attn_cli.sources.huggingface.source import ModelSource
from tests.sources.huggingface.models import GROUPED, sentence, tiny
from tests.sources.huggingface.runs import run_captured


def _weights(call: Call) -> np.ndarray:
    weights: np.ndarray = reduce(call, MatrixOf()).parts[0].weights
    return weights


@torch.no_grad()
def test_a_static_cache_has_no_weight_on_its_empty_places() -> None:
    model, seen = tiny("llama"), list[np.ndarray]()
    inputs, next_id = sentence(model, n=3), torch.tensor([[9]])
    own_cache, cache = (StaticCache(config=model.config, max_cache_len=8) for _ in range(2))
    model(**inputs, past_key_values=own_cache)
    own = model(next_id, past_key_values=own_cache, output_attentions=True)
    with capture(model, lambda call: seen.append(_weights(call))):
        model(**inputs, past_key_values=cache)
        output = model(next_id, past_key_values=cache)
    torch.testing.assert_close(output[0], own[0], rtol=0, atol=1e-5)
    for weights, expected in zip(seen[len(seen) // 2 :], own.attentions, strict=True):
        assert not expected[0, :, :, 4:].any()
        np.testing.assert_allclose(weights, expected[0], atol=1e-6)


@torch.no_grad()
def test_a_padded_batch_goes_on_from_its_cache() -> None:
    model, ids = tiny("llama"), torch.arange(5, 21).reshape(2, 8)
    mask = torch.tensor([[1] * 8, [0] * 3 + [1] * 4 + [0]])
    own = model(ids, attention_mask=mask, output_attentions=True).attentions
    run = run_captured(model, {"input_ids": ids[:, :6], "attention_mask": mask[:, :6], "use_cache": True})
    then = {"input_ids": ids[:, 6:], "past_key_values": run.outputs.past_key_values}
    run = run_captured(model, {"attention_mask": mask, **then})
    for layer, expected in enumerate(own):
        np.testing.assert_allclose(run.weights(layer, 0), expected[0, :, 6:], atol=1e-5)
        np.testing.assert_allclose(run.weights(layer, 1), expected[1, :, 6:7, 3:7], atol=1e-5)


def _without_head_0(module: nn.Module, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    output, weights = modeling_llama.eager_attention_forward(module, *args, **kwargs)
    output, weights = output.clone(), weights.clone()
    output[:, :, 0], weights[:, 0] = 0, 0
    return output, weights


@torch.no_grad()
@pytest.mark.parametrize("way", ["registered", "patched"])
def test_an_attention_function_of_ones_own_runs_and_its_weights_are_shown(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, seen = tiny("llama"), list[np.ndarray]()
    if way == "registered":
        monkeypatch.setitem(AttentionInterface._global_mapping, "mine", _without_head_0)
        monkeypatch.setitem(AttentionMaskInterface._global_mapping, "mine", eager_mask)
        model.set_attn_implementation("mine")
    else:
        eager = modeling_llama.eager_attention_forward

        def patched(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
            output, weights = eager(*args, **kwargs)
            return output.roll(1, 2), weights.roll(1, 1)

        monkeypatch.setattr(modeling_llama, "eager_attention_forward", patched)
    own = model(**sentence(model), output_attentions=True)
    with capture(model, lambda call: seen.append(_weights(call))):
        output = model(**sentence(model))
    torch.testing.assert_close(output[0], own[0], rtol=0, atol=0)
    assert model.config._attn_implementation == ("mine" if way == "registered" else "eager")
    for weights, expected in zip(seen, own.attentions, strict=True):
        np.testing.assert_array_equal(weights, expected[0])


@torch.no_grad()
def test_a_function_of_ones_own_without_weights_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, None]:
        return _without_head_0(*args, **kwargs)[0], None

    model = tiny("llama")
    monkeypatch.setitem(AttentionInterface._global_mapping, "mine", hidden)
    model.set_attn_implementation("mine")
    own, outputs = model(**sentence(model))[0], []
    error = r"self_attn \(by hidden, which returns no weights\)"
    with pytest.raises(LoadError, match=error), capture(model, lambda _: None):
        outputs.append(model(**sentence(model))[0])
    torch.testing.assert_close(outputs[0], own, rtol=0, atol=0)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["llama", "bert", "t5gemma"])
def test_attentions_that_someone_asks_for_come_as_without_capture(kind: str) -> None:
    model = tiny(kind)
    inputs = sentence(model) | {"output_attentions": True}
    own = model(**inputs)
    with capture(model, lambda _: None):
        output = model(**inputs)
    names = [name for name in own if name.endswith("attentions")]
    assert names
    for name in names:
        torch.testing.assert_close(output[name], own[name], rtol=0, atol=1e-6)


_PACKED = {"input_ids": np.array([[5, 9, 14, 7, 30, 22, 41]]), "position_ids": np.array([[0, 1, 2, 0, 1, 2, 3]])}


def _source(model: Any, stack: Any, folder: Path, arrays: dict[str, np.ndarray]) -> ModelSource:
    np.savez(folder / "in.npz", **arrays)
    about = {"model": "tiny", "type": model.config.model_type}
    loaded = LoadedModel(stack, None, about, Origin("tiny", "tiny", OriginOptions()), None if model is stack else model)
    return ModelSource(loaded, PromptReader(loaded, inputs_file=str(folder / "in.npz")))


@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma2"])
@pytest.mark.parametrize("given", [{}, {"use_cache": np.array(False)}, {"attention_mask": np.ones((1, 7), int)}])
def test_documents_packed_by_their_positions(kind: str, given: dict[str, np.ndarray], tmp_path: Path) -> None:
    model, arrays = tiny(kind), _PACKED | given
    inputs = {name: torch.from_numpy(x) if x.ndim else x.item() for name, x in arrays.items()}
    with torch.no_grad():
        eager = model(**inputs, output_attentions=True).attentions
    source, seen = _source(model, model, tmp_path, arrays), []
    source.each(source.read([""]), ALL, lambda call: seen.append(reduce(call, MatrixOf()).parts[0].weights))
    apart = float(eager[-1][0, :, 3:, :3].max()) == 0
    assert apart == ("use_cache" in given)
    for weights, expected in zip(seen, eager, strict=True):
        np.testing.assert_allclose(weights, expected[0], atol=1e-5)


def test_the_answer_to_packed_documents(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(**GROUPED)
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for x in model.parameters():
            x.mul_(5)
        logits = model(**{name: torch.from_numpy(x) for name, x in _PACKED.items()}).logits[0, -1]
    source = _source(model, model.model, tmp_path, _PACKED)
    target = source.experiment(source.read([""])[0]).target
    assert target is not None
    assert target.tokens[0].id == int(logits.argmax())
    np.testing.assert_allclose(target.probability, logits.softmax(-1).max(), atol=1e-5)
