"""A capture leaves the model, and transformers, as it found them."""

import copy
from typing import Any

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

from attn_cli.call import Call
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from tests.sources.huggingface.models import sentence, tiny
from tests.sources.huggingface.runs import run_captured, run_plain


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


@pytest.mark.parametrize("kind", ["llama", "gemma3", "t5", "bart"])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_model_keeps_its_attention(kind: str, implementation: str) -> None:
    model = tiny(kind)
    model.set_attn_implementation(implementation)
    before = state(model)
    run_captured(model, sentence(model))
    assert state(model) == before


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
