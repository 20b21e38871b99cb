"""A tiny random model of any type that transformers lists, built from its configuration class."""

import dataclasses
import inspect
import math
import re
import zlib
from collections.abc import Iterable
from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.source import ModelSource
from tests.architectures.overrides import CLASSES, OVERRIDES, VARIANTS
from tests.architectures.sizes import ABSENT, DEPTHS, HEAD_SIZE, HEADS, HIDDEN, IMAGE, LISTS, NUMBERS, TOKENS

_MAPPINGS = [
    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_MAPPING_NAMES,
]
_COUNTED = (0, 1, 4, 5)
# Weights with a meaning that noise would destroy: decay rates and the like.
_KEPT = re.compile(r"(A_log|dt_bias|dt_proj\.bias|inv_freq|time_decay|time_first|norm_mean|norm_std)")
MOST_PARAMETERS = 60_000_000


def every_type() -> list[str]:
    """All types that transformers lists as models or language models, then our variants `type@variant`."""
    return sorted({kind for number in _COUNTED for kind in _MAPPINGS[number]}) + list(VARIANTS)


def each_of(kinds: Iterable[str], *, daily: str) -> list[Any]:
    """Parameters of a test: the types that are run every day, and those that wait for `-m every_type`."""
    return [pytest.param(kind, marks=() if kind in daily.split() else pytest.mark.every_type) for kind in kinds]


def class_of(kind: str) -> Any:
    if kind in CLASSES:
        return getattr(transformers, CLASSES[kind])
    name = next(mapping[kind] for mapping in _MAPPINGS if kind in mapping)
    return getattr(transformers, name if isinstance(name, str) else name[0])


def tiny_model(name: str, level: str) -> PreTrainedModel:
    """A model of the type or variant in evaluation mode on eager attention.

    level  "tiny" shrinks every size, "shallow" only the depth and the vocabulary, for types in which sizes hang
           together in their own way
    """
    kind, options = VARIANTS.get(name, (name, {}))
    config = shrunk(CONFIG_MAPPING[kind], OVERRIDES.get(kind, {}) | options if level == "tiny" else {}, level)
    decoder = options.get("is_decoder")
    cls = getattr(transformers, modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]) if decoder else class_of(kind)
    if cls.config_class is getattr(type(config), "sub_configs", {}).get("text_config"):
        config = config.get_text_config()
    with torch.device("meta"):
        count = sum(x.numel() for x in cls(config).parameters()) if level != "tiny" else 0
    if count > MOST_PARAMETERS:
        raise ValueError(f"{count:,} parameters")
    torch.manual_seed(0)
    return enlivened(cls._from_config(config, attn_implementation="eager").float().eval())


def tiny_source(name: str) -> ModelSource:
    """A model of the type as a source of its own, without a tokenizer."""
    origin = Origin(name, name, OriginOptions())
    return ModelSource(LoadedModel(tiny_model(name, "tiny"), None, {"model": f"tiny-{name}", "type": name}, origin))


@torch.no_grad()
def enlivened(model: PreTrainedModel) -> PreTrainedModel:
    """The model with larger weights: with fresh ones attention is nearly uniform, and no missing mask would show."""
    for name, x in model.named_parameters():
        leaf = name.rsplit(".", 1)[-1]
        if not x.numel() or not x.is_floating_point() or _KEPT.search(name) or leaf.startswith("original0"):
            continue
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode())))
        if "sink" in name:
            x.copy_(noise)
        elif x.ndim <= 1:
            x.copy_(torch.nan_to_num(x) + 0.1 * noise)
        elif any(word in name for word in ("embed", "position", "relative")):
            x.copy_(0.7 * noise)
        else:
            inputs = x.shape[-1] if x.ndim == 3 and "experts" in name else x[0].numel()
            x.copy_(noise * 1.3 / math.sqrt(max(inputs, 1)))
    return model


def shrunk(source: Any, change: dict[str, Any], level: str, placeholders: dict[str, int] | None = None) -> Any:
    """A small configuration of a class, or of the class of a configuration, with entries changed by hand."""
    placeholders = {} if placeholders is None else placeholders
    change = dict(change)
    cls = source if isinstance(source, type) else type(source)
    default = _default(cls, change)
    values = vars(default if isinstance(source, type) else source)
    layers = _chosen_layers(values)
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if name.startswith("_") or name not in _fields(cls):
            continue
        if isinstance(value, PreTrainedConfig):
            part = change.pop(name, {})
            arguments[name] = shrunk(value, part, level, placeholders) if isinstance(part, dict) else _called(part)
            continue
        new = _small(name, value, values, layers, placeholders, level)
        if new is not value or (not isinstance(source, type) and _differs(vars(default).get(name), value)):
            arguments[name] = new
    if not isinstance(source, type) and "depths" in values and getattr(source, "_out_features", None):
        arguments.setdefault("out_features", list(source._out_features))
    return cls(**arguments | {name: _called(value) for name, value in change.items()})


def _small(
    name: str, value: Any, values: dict[str, Any], layers: list[int] | None, placeholders: dict[str, int], level: str
) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    several = isinstance(value, list | tuple)
    deepest = _depth(values)
    per_layer = several and deepest is not None and deepest > 2 and len(value) == deepest
    if name.endswith(("_token_id", "_token_index")) or name in ("image_patch_id", "bos_id", "eos_id"):
        listed = several and bool(value) and all(isinstance(x, int) for x in value)
        return _token(name, placeholders) if whole or listed else value
    if name in DEPTHS and whole:
        return len(layers) if layers and value == deepest else min(value, 2)
    if per_layer and name not in LISTS and layers and not any(isinstance(x, list | tuple | dict) for x in value):
        picked = [value[layer] for layer in layers]
        if level == "tiny" and name in NUMBERS:
            picked = [NUMBERS[name] if type(x) is int else x for x in picked]
        return type(value)(picked)
    if "vocab_size" in name and whole and value and name in NUMBERS:
        return NUMBERS[name]
    if level != "tiny":
        return value
    if name in ("rope_parameters", "rope_scaling"):
        return _small_rope(value, HEAD_SIZE if {"head_dim", "qk_rope_head_dim"} & set(values) else HIDDEN // HEADS)
    if name == "image_size" and several and len(value) == 2:
        return type(value)((IMAGE, IMAGE))
    if name in LISTS and several:
        return type(value)(LISTS[name])
    if value is None and name in ABSENT and ABSENT[name][0] in values:
        return ABSENT[name][1]
    if not whole or not value:
        return value
    if name == "hidden_dim" and {"dim", "n_heads"} & set(values):
        return 64
    if name == "window_size" and "fullatt_block_indexes" in values:
        return IMAGE  # pixels
    if name == "num_key_value_heads" and "kv_lora_rank" in values:
        return HEADS  # latent attention has a key head per query head
    return NUMBERS.get(name, value)


def _chosen_layers(values: dict[str, Any]) -> list[int] | None:
    """Which layers of the full model stay: one of each kind, at least two."""
    depth = _depth(values)
    if depth is None:
        return None
    kinds = [x for x in values.values() if isinstance(x, list | tuple) and len(x) == depth > 2
             and all(isinstance(kind, str) for kind in x)]  # fmt: skip
    first = {tuple(kind[layer] for kind in kinds): layer for layer in reversed(range(depth))} if kinds else {}
    chosen = sorted(first.values())[:6] or [0]
    return chosen if len(chosen) > 1 else [*chosen, depth - 1]


def _depth(values: dict[str, Any]) -> int | None:
    depths = (values[name] for name in values if name in DEPTHS)
    return next((x for x in depths if isinstance(x, int) and not isinstance(x, bool) and x > 0), None)


def _small_rope(value: Any, head_size: int) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(x, dict) for x in value.values()):
        return {name: _small_rope(x, head_size) for name, x in value.items()}
    small = dict(value)
    pairs = max(1, int(head_size * (small.get("partial_rotary_factor") or 1.0)) // 2)
    if sections := small.get("mrope_section"):
        small["mrope_section"] = [max(pairs - len(sections) + 1, 1)] + [1] * (len(sections) - 1)
    for name in ("short_factor", "long_factor"):
        if isinstance(small.get(name), list | tuple):
            small[name] = [1.0 + 0.1 * pair for pair in range(pairs)]
    if isinstance(small.get("original_max_position_embeddings"), int):
        small["original_max_position_embeddings"] = 32
    return small


def _token(name: str, placeholders: dict[str, int]) -> int:
    stem = re.sub(r"_(token_id|token_index|id|index)$", "", name)
    return TOKENS[stem] if stem in TOKENS else placeholders.setdefault(stem, 119 - len(placeholders))


def _fields(cls: Any) -> set[str]:
    named = {field.name for field in dataclasses.fields(cls) if field.init} if dataclasses.is_dataclass(cls) else set()
    return named | set(inspect.signature(cls.__init__).parameters) - {"self"}


def _default(cls: Any, change: dict[str, Any]) -> Any:
    try:
        return cls()
    except Exception:  # some classes need a part named; of any type
        return cls(**{name: _called(value) for name, value in change.items() if not isinstance(value, dict)})


def _called(value: Any) -> Any:
    return value() if callable(value) else value


def _differs(a: Any, b: Any) -> bool:
    try:
        return bool(a != b)
    except Exception:  # arrays have no single truth
        return True
