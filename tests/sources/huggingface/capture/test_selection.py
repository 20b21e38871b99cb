"""Only selected layers and heads are visited; the rest of the model runs as without a capture."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    CLIPConfig,
    CLIPModel,
    PreTrainedConfig,
    PreTrainedModel,
)

import attn_cli
from attn_cli.attention_call import WeightsCall
from attn_cli.call import Call
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.architectures.tiny import tiny_model
from tests.sources.huggingface.models import sentence, tiny
from tests.sources.huggingface.runs import TEXT, run_captured, run_plain


def visited(loaded: LoadedModel, selection: Selection) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    places = []

    def visit(call: Call) -> None:
        places.append((call.place.layer, call.place.heads, call.place.groups))

    source = ModelSource(loaded)
    source.each(source.read([TEXT]), selection, visit)
    return places


def test_heads_of_layers_and_single_ones(smollm: LoadedModel) -> None:
    places = visited(smollm, Selection(layers=(28, 3), heads=(0, 4, 8)))
    assert places == [(3, (0, 4, 8), (0, 1, 2)), (28, (0, 4, 8), (0, 1, 2))]
    pairs = ((18, 6), (17, 3), (-1, -9), (18, 0))
    assert visited(smollm, Selection(pairs=pairs)) == [(17, (3,), (1,)), (18, (0, 6), (0, 2)), (29, (0,), (0,))]
    planned = ModelSource(smollm).planned_layers(Selection(pairs=pairs))
    assert planned == [(17, 1), (18, 2), (29, 1)]


@pytest.mark.parametrize("kind", ["llama", "gpt_oss", "modernbert", "t5"])
@pytest.mark.parametrize("padded", [False, True])
def test_layers_that_are_not_selected_compute_what_they_compute_without_a_capture(kind: str, padded: bool) -> None:
    model = tiny(kind)
    inputs = sentence(model, texts=2)
    counted = torch.ones(2, inputs.get("decoder_input_ids", inputs["input_ids"]).shape[1], dtype=torch.bool)
    if padded:
        inputs["attention_mask"] = torch.tensor([[1] * 11, [1] * 8 + [0] * 3])
        if not model.config.is_encoder_decoder:
            counted = inputs["attention_mask"].bool()
    run = run_captured(model, inputs, Selection(layers=()))
    assert run.summaries == []
    torch.testing.assert_close(run.outputs[0][counted], run_plain(model, inputs)[0][counted], atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["bert", "gemma2", "gpt2", "bart"])
def test_the_pass_ends_after_the_last_selected_layer(kind: str) -> None:
    """The same is seen as in a whole pass, and the blocks above don't run."""
    model = tiny(kind)
    modules = {module: places[0].layer for module, places in ModulePlaces(model).attention.items()}
    assert {*modules.values()} == {0, 1}
    runs: list[list[np.ndarray]] = []
    for until_asked in (False, True):
        matrices: list[np.ndarray] = []
        ended, visit = False, lambda call, to=matrices: to.append(reduce(call, MatrixOf()).part(Matrix).weights)
        with capture(model, visit, selection=Selection(layers=(0,))) as ledger, torch.no_grad():
            if until_asked:
                ledger.end_after_selection()
            model(**sentence(model))
            ended = True
        runs.append(matrices)
        assert ended == (not until_asked)
        # In an encoder-decoder the encoder's last block comes before the decoder's first.
        assert all(module in ledger.runs for module in modules) == (not until_asked)
    assert len(runs[0]) == len(runs[1]) > 0
    for whole, cut in zip(*runs, strict=True):
        np.testing.assert_array_equal(whole, cut)


# Eager computes scores in the model's precision: 8 bits of mantissa on scores of size 10 (bfloat16), 11 bits (float16).
TOLERANCE = {torch.bfloat16: 0.08, torch.float16: 0.01}


@pytest.mark.parametrize("kind", ["llama", "gpt_oss", "t5"])
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
    with torch.no_grad(), attn_cli.capture(model, calls.append):  # type: ignore[arg-type]
        model(input_ids=torch.arange(1, 7)[None])
    if calls[0].place.way == "registry":
        pytest.skip(f"{kind} has no attention of its own in this release of transformers")
    later = torch.ones(6, 6, dtype=torch.bool).triu(1) & OWN_CODE[kind]
    for call in calls:
        assert call.weights.sum(-1).numpy() == pytest.approx(1.0, abs=max(torch.finfo(dtype).eps, 1e-6))
        assert torch.equal(call.scores == -torch.inf, later.expand(call.h, 6, 6))
    assert len(calls) > 1


def state(model: PreTrainedModel) -> dict[str, Any]:
    """All that a capture could leave changed."""
    configs = {path: part.config for path, part in model.named_modules() if isinstance(part, PreTrainedModel)}
    inner = {f"{path}.{key}": value for path, config in configs.items() for key, value in vars(config).items()
             if isinstance(value, PreTrainedConfig)}  # fmt: skip
    return {
        "implementations": {path: config._attn_implementation for path, config in {**configs, **inner}.items()},
        "configs": {path: config.to_dict() for path, config in configs.items()},
        "functions": dict(AttentionInterface._global_mapping),
        "masks": dict(AttentionMaskInterface._global_mapping),
        "hooks": [(len(part._forward_hooks), len(part._forward_pre_hooks)) for part in model.modules()],
        "training": [part.training for part in model.modules()],
        "weights": {name: (id(x), x._version) for name, x in model.named_parameters()},
        "forwards": [vars(part).get("forward") for part in model.modules()],
        "grad": torch.is_grad_enabled(),
    }


def test_after_a_capture(real: LoadedModel) -> None:
    before = state(real.model)
    with capture(real.model, lambda call: None):
        assert AttentionInterface._global_mapping != before["functions"]
        run_plain(real.model, {"input_ids": torch.tensor([[1, 2, 3]])})
    assert state(real.model) == before


def test_every_part_keeps_its_own_attention() -> None:
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = CLIPConfig(text_config=small | {"vocab_size": 64}, vision_config=small | {"image_size": 8})
    model = CLIPModel(config).eval()
    model.set_attn_implementation({"text_config": "sdpa", "vision_config": "eager"})
    before = state(model)
    assert set(before["implementations"].values()) == {"sdpa", "eager"}
    with capture(model, lambda call: None):
        assert set(state(model)["implementations"].values()) == {"eager"}
        run_plain(model.text_model, {"input_ids": torch.tensor([[1, 2, 3]])})
    assert state(model) == before


def test_when_the_visitor_fails() -> None:
    model = tiny("llama")
    model.set_attn_implementation("sdpa")
    before = state(model)

    def visit(call: Call) -> None:
        raise KeyError(call.place.layer)

    with pytest.raises(KeyError, match="0"), capture(model, visit), torch.no_grad():
        model(**sentence(model))
    assert state(model) == before


def test_a_capture_in_a_capture() -> None:
    outer, inner = tiny("llama"), tiny("bert")
    before = copy.copy(state(outer)), copy.copy(state(inner))
    seen: list[tuple[str, int]] = []
    with capture(outer, lambda call: seen.append(("outer", call.place.layer))), torch.no_grad():
        with capture(inner, lambda call: seen.append(("inner", call.place.layer))):
            inner(**sentence(inner))
        outer(**sentence(outer))
    assert seen == [("inner", 0), ("inner", 1), ("outer", 0), ("outer", 1)]
    assert (state(outer), state(inner)) == before
