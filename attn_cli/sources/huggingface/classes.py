"""Which class loads a model: its stack without the head on top, unless only the class with its head knows the stack."""

from typing import Any

import transformers
from transformers import AutoModel, PreTrainedConfig


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
