"""Which class loads a model: its stack without the head on top, unless only the class with its head knows the stack.

A model that is to write needs its head; what is looked at is then the stack in it, whose layers have the same names.
"""

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

from attn_cli.sources.huggingface.known_types import type_of

_WITH_ENCODER = (AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq, AutoModelForImageTextToText)
_WITHOUT_ENCODER = (AutoModelForImageTextToText, AutoModelForCausalLM)


def model_class(config: PreTrainedConfig) -> Any:
    """`AutoModel`, or the class that the checkpoint was saved from.

    The latter for a type that `AutoModel` doesn't know, and for the decoder alone of a type whose stack has an encoder
    too, such as a BartForCausalLM: `AutoModel` would add an encoder with random weights.
    """
    saved = saved_class(config)
    if saved is None:
        return AutoModel
    lone_decoder = getattr(config, "is_decoder", False) and saved.__name__.endswith("ForCausalLM")
    return saved if type(config) not in AutoModel._model_mapping or lone_decoder else AutoModel


def saved_class(config: PreTrainedConfig) -> Any:
    """The class of transformers that the checkpoint says it was saved from; None if there is none of that name."""
    return getattr(transformers, (getattr(config, "architectures", None) or ["-"])[0], None)


def writing_class(config: PreTrainedConfig) -> Any:
    """The class that writes text by this checkpoint: the one that it was saved from; None if that does something else.

    Where it was saved from the bare stack, or doesn't say from what, the one that puts a head on it.
    """
    halves = bool(getattr(config, "is_encoder_decoder", False))
    known = type_of(config)
    two_ways = type(config) in AutoModelForMaskedLM._model_mapping or known.attends_both_ways
    reads_ahead = two_ways and not halves and not getattr(config, "is_decoder", False)
    if reads_ahead or known.generates_otherwise:
        return None
    saved = saved_class(config)
    if saved is not None and not _is_stack(saved, config):
        return saved if saved.can_generate() and "text" in getattr(saved, "output_modalities", ("text",)) else None
    own = getattr(config, "auto_map", None) or {}
    heads: tuple[Any, ...] = _WITH_ENCODER if halves else _WITHOUT_ENCODER
    return next((auto for auto in heads if type(config) in auto._model_mapping or auto.__name__ in own), None)


def stack_of(writer: PreTrainedModel, config: PreTrainedConfig) -> PreTrainedModel:
    """What `model_class` would have loaded, in a model that was loaded with its head; the whole if it isn't there."""
    inner: PreTrainedModel = writer.base_model
    return inner if model_class(config) is AutoModel and _is_stack(type(inner), config) else writer


def _is_stack(kind: Any, config: PreTrainedConfig) -> bool:
    """Whether it is what `AutoModel` loads, from transformers or from code that comes with the model."""
    own = (getattr(config, "auto_map", None) or {}).get("AutoModel")
    if own is not None:
        return bool(str(own).rpartition(".")[2] == kind.__name__)
    known = AutoModel._model_mapping.get(type(config), ())
    return kind in (known if isinstance(known, tuple | list) else (known,))
