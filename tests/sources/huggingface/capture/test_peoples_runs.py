"""What people do in their own runs of a transformers model goes on as without capture, and is shown as it is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from transformers import AttentionInterface, AttentionMaskInterface, StaticCache
from transformers.masking_utils import (
    and_masks,
    bidirectional_mask_function,
    causal_mask_function,
    chunked_causal_mask_function,
    eager_mask,
    or_masks,
    sliding_window_bidirectional_mask_function,
    sliding_window_causal_mask_function,
)
from transformers.models.llama import modeling_llama

from attn_cli import Heads, HeadStatistics, MatrixOf, capture, reduce
from attn_cli.call import Call
from attn_cli.errors import LoadError
from attn_cli.kernel.definition.mask import dense
from attn_cli.selection import ALL
from attn_cli.sources.huggingface.capture.lazy_mask import lazy_mask
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.read.reader import PromptReader
from attn_cli.sources.huggingface.source import ModelSource
from tests.architectures.tiny import tiny_model
from tests.sources.huggingface.models import sentence, tiny
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
@pytest.mark.parametrize("kind", ["llama", "gptj"])  # by the registry, from own code
def test_a_padded_batch_goes_on_from_its_cache(kind: str) -> None:
    model, ids = tiny(kind), torch.arange(5, 21).reshape(2, 8)
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


_PACKED = {"input_ids": np.array([[5, 9, 14, 7, 30, 22, 41]]), "position_ids": np.array([[0, 1, 2, 0, 1, 2, 3]])}


def _source(model: Any, stack: Any, folder: Path, arrays: dict[str, np.ndarray]) -> ModelSource:
    np.savez(folder / "in.npz", **arrays)
    about = {"model": "tiny", "type": model.config.model_type}
    loaded = LoadedModel(stack, None, about, Origin("tiny", "tiny", OriginOptions()), None if model is stack else model)
    return ModelSource(loaded, PromptReader(loaded, inputs_file=str(folder / "in.npz")))


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
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


# How transformers calls a mask function: what is allowed, and what goes with it.
TRANSLATED: dict[str, dict[str, Any]] = {
    "causal": {"mask_function": causal_mask_function, "allow_is_causal_skip": True},
    "everything": {"mask_function": bidirectional_mask_function, "allow_is_causal_skip": False},
    "window": {"mask_function": sliding_window_causal_mask_function(3), "local_size": 3, "allow_is_causal_skip": True},
    "window on both sides": {
        "mask_function": sliding_window_bidirectional_mask_function(2),
        "local_size": 2,
        "allow_is_causal_skip": False,
    },
}
CELL_BY_CELL: dict[str, dict[str, Any]] = {
    "causal, or one of the first two": {
        "mask_function": or_masks(causal_mask_function, lambda b, h, i, j: j < 2),
        "allow_is_causal_skip": False,
    },
    "every third": {
        "mask_function": and_masks(causal_mask_function, lambda b, h, i, j: (i - j) % 3 == 0),
        "allow_is_causal_skip": False,
    },
    "chunks": {
        "mask_function": chunked_causal_mask_function(3, torch.zeros(3, dtype=torch.long)),
        "local_size": 3,
        "allow_is_causal_skip": True,
    },
    "another for each text": {"mask_function": lambda b, h, i, j: j <= i + b, "allow_is_causal_skip": False},
}


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of transformers' mask functions: any size, with past keys or without, padded on either side."""
    batch, n, past = draw(st.integers(1, 3)), draw(st.integers(1, 7)), draw(st.integers(0, 5))
    m = n + past
    padding = None
    if draw(st.booleans()):
        padding = torch.ones(batch, m, dtype=torch.bool)
        for text in range(batch):
            blank = draw(st.integers(0, m - 1))
            padding[text, slice(0, blank) if draw(st.booleans()) else slice(m - blank, m)] = False
    return {
        "batch_size": batch,
        "q_length": n,
        "kv_length": m,
        "q_offset": past,
        "attention_mask": padding,
        "use_vmap": False,
        "device": "cpu",
        **draw(st.sampled_from([*TRANSLATED.values(), *CELL_BY_CELL.values()])),
    }


@given(arguments())
def test_its_rule_allows_what_eagers_mask_allows(options: dict[str, Any]) -> None:
    lazy, expected = lazy_mask(**options), eager_mask(**options) == 0
    for text in range(options["batch_size"]):
        rule = lazy.of_text(text, slice(0, options["q_length"]), slice(0, options["kv_length"]))
        cells = dense(rule, options["q_length"], options["kv_length"], like=torch.empty(0))
        assert torch.equal(cells, expected[text, 0])


@given(arguments())
def test_it_becomes_eagers_mask_as_soon_as_it_is_computed_with(options: dict[str, Any]) -> None:
    lazy, expected = lazy_mask(**options), eager_mask(**options)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    assert torch.equal(lazy + 0, expected)
    assert torch.equal(lazy[:, :, -1:], expected[:, :, -1:])
    assert torch.equal(torch.cat([lazy, lazy], dim=-1), torch.cat([expected, expected], dim=-1))


@given(arguments())
def test_its_booleans_say_the_same(options: dict[str, Any]) -> None:
    booleans = lazy_mask(**options).boolean()
    if booleans is None:  # then SDPA is told is_causal, or has one query that sees all keys
        n, m = options["q_length"], options["kv_length"]
        booleans = torch.ones(n, m, dtype=torch.bool).tril(0 if n > 1 else m)[None, None]
    assert torch.equal(booleans.expand(options["batch_size"], -1, -1, -1), eager_mask(**options) == 0)


IDS = torch.tensor([[1, 2, 3, 4, 5, 6, 7]])


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def seen(model: torch.nn.Module) -> list[list[float]]:
    """Layer, head, key head, entropy and largest score of each head."""
    rows: list[list[float]] = []

    def visit(call: Call) -> None:
        heads = reduce(call, HeadStatistics()).part(Heads)
        numbers = (call.place.heads, call.place.groups, heads.entropy_bits.tolist(), heads.max_score.tolist())
        rows.extend([call.place.layer, *row] for row in zip(*numbers, strict=True))

    with torch.no_grad(), capture(model, visit):
        model(IDS)
    return rows


@pytest.mark.usefixtures("group")
def test_heads_and_output_of_a_sharded_model() -> None:
    torch.manual_seed(0)
    model = tiny_model("llama", "tiny")
    plain = seen(model)
    with torch.no_grad():
        logits = model(IDS).logits
    mesh = init_device_mesh("cpu", (1,))
    for block in (*model.model.layers, model):
        fully_shard(block, mesh=mesh)
    assert isinstance(model, FSDPModule)
    np.testing.assert_allclose(seen(model), plain, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(model(IDS).logits, logits, rtol=1e-5, atol=1e-5)
