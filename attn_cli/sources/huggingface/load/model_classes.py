"""The class that loads a model: of the stack without a head, unless it generates or loads only with its head."""

from typing import Any

import transformers
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSpeechSeq2Seq,
    PreTrainedConfig,
    PreTrainedModel,
)

from attn_cli.sources.huggingface.compat import models_of
from attn_cli.sources.huggingface.known_types import BIDIRECTIONAL, NOT_AUTOREGRESSIVE

_WITH_ENCODER = (AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq, AutoModelForImageTextToText)
_WITHOUT_ENCODER = (AutoModelForImageTextToText, AutoModelForCausalLM)


def model_class(config: PreTrainedConfig) -> Any:
    """The class to load: `AutoModel`, the class that the checkpoint was saved from, or the one of `auto_map`."""
    original = saved_class(config)
    if original is None:
        remote = getattr(config, "auto_map", None) or {}
        heads = [name for name in remote if name.startswith("AutoModelFor")]
        return AutoModel if "AutoModel" in remote or not heads else getattr(transformers, heads[0], AutoModel)
    parts = config.sub_configs.values()
    of_a_part = any(stack.config_class in parts for stack in _stacks(config))
    lone_decoder = getattr(config, "is_decoder", False) and original.__name__.endswith("ForCausalLM")
    return original if type(config) not in models_of(AutoModel) or of_a_part or lone_decoder else AutoModel


def saved_class(config: PreTrainedConfig) -> Any:
    """The class of transformers that the checkpoint says it was saved from; None if there is none of that name."""
    return getattr(transformers, (getattr(config, "architectures", None) or ["-"])[0], None)


def generating_class(config: PreTrainedConfig) -> Any:
    """The class that generates text with this checkpoint's weights; None where there is none."""
    encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
    both_ways = type(config) in models_of(AutoModelForMaskedLM) or config.model_type in BIDIRECTIONAL
    attends_ahead = both_ways and not encoder_decoder and not getattr(config, "is_decoder", False)
    if attends_ahead or config.model_type in NOT_AUTOREGRESSIVE:
        return None
    original = saved_class(config)
    if original is not None and not _is_stack(original, config):
        writes = original.can_generate() and "text" in getattr(original, "output_modalities", ("text",))
        return original if writes else None
    remote = getattr(config, "auto_map", None) or {}
    heads: tuple[Any, ...] = _WITH_ENCODER if encoder_decoder else _WITHOUT_ENCODER
    return next((auto for auto in heads if type(config) in models_of(auto) or auto.__name__ in remote), None)


def has_generating_head(model: PreTrainedModel) -> bool:
    """True for a model that generates text with a head of its own on its stack."""
    cls, config = type(model), model.config
    return not _is_stack(cls, config) and cls.can_generate() and generating_class(config) is not None


def stack_of(model: PreTrainedModel, config: PreTrainedConfig) -> PreTrainedModel:
    """The layers alone, without the language-model head, of a model that was loaded with one."""
    inner: PreTrainedModel = model.base_model
    return inner if model_class(config) is AutoModel and _is_stack(type(inner), config) else model


def _is_stack(cls: Any, config: PreTrainedConfig) -> bool:
    remote = (getattr(config, "auto_map", None) or {}).get("AutoModel")
    if remote is not None:
        return bool(str(remote).rpartition(".")[2] == cls.__name__)
    return cls in _stacks(config)


def _stacks(config: PreTrainedConfig) -> tuple[Any, ...]:
    stacks = models_of(AutoModel).get(type(config), ())
    return tuple(stacks) if isinstance(stacks, tuple | list) else (stacks,)
