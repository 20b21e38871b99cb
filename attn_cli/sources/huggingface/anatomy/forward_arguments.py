"""The arguments of a model's forward: which it takes, those of one call, and the errors for wrong ones."""

import re
from collections.abc import Iterable, Mapping
from inspect import signature
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.utils.generic import TransformersKwargs

# What models raise where an input is missing or doesn't fit.
INPUT_ERRORS = (TypeError, ValueError, RuntimeError, AttributeError, LookupError, AssertionError)


def takes_any(model: nn.Module) -> bool:
    """True if the model's forward has a `**kwargs`, which takes arguments of any name."""
    parameters = signature(model.forward).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def ignored(model: nn.Module, names: Iterable[str]) -> list[str]:
    """Those of some names of arguments that no forward of the model's modules declares: a `**kwargs` swallows them."""
    forwards = {type(module).forward for module in model.modules()}
    declared = {
        *TransformersKwargs.__annotations__,
        *(name for each in forwards for name in signature(each).parameters),
    }
    return [name for name in names if {name, re.sub("^(text_)?(en|de)coder_", "", name)}.isdisjoint(declared)]


def arguments_of(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of one call of the model's forward by name, those that its `**kwargs` collects among them."""
    arguments: dict[str, Any] = dict(signature(model.forward).bind_partial(*args, **kwargs).arguments)
    arguments |= arguments.pop("kwargs", {})
    return arguments


def first_float_input(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """The first tensor of floats that a module is called with; None without any."""
    tensors = (x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor) and x.is_floating_point())
    return next(tensors, None)


def first_tokens(arguments: Mapping[str, Any], count: int) -> dict[str, Any]:
    """A forward's arguments cut to the first `count` tokens of the first text, without the attention mask."""
    tensors = {name for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    if not tensors <= {"input_ids", "decoder_input_ids", "attention_mask"}:
        return dict(arguments)
    return {
        name: value[:1, :count] if name in tensors else value
        for name, value in arguments.items()
        if name != "attention_mask"
    }


def without_cache(model: nn.Module, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A forward's arguments, with its cache off where they are of text alone: with others, masks may depend on it."""
    is_text = arguments.keys() <= {"input_ids", "attention_mask", "decoder_input_ids"}
    if not is_text or "use_cache" not in signature(model.forward).parameters:
        return dict(arguments)
    return {**arguments, "use_cache": False}


def out_of_memory(error: Exception) -> bool:
    """True for an error of too little memory: torch has a type for that on a GPU, on a CPU only a message."""
    return isinstance(error, torch.OutOfMemoryError) or "allocate" in str(error)


def outside_vocabulary(model: nn.Module, arguments: Mapping[str, Any]) -> str:
    """A clause on the first id in a forward's arguments for which the embedding has no row; "" where all have one."""
    if not isinstance(model, PreTrainedModel):
        return ""
    try:
        table = model.get_input_embeddings()
    except NotImplementedError:
        return ""
    if not isinstance(table, nn.Embedding):
        return ""
    for name, ids in arguments.items():
        if name in ("input_ids", "decoder_input_ids") and isinstance(ids, torch.Tensor) and ids.ndim == 2:
            ids = ids.to(torch.int64)  # torch compares no unsigned ones; what is beyond 64 bits becomes negative
            wrong = ((ids < 0) | (ids >= table.num_embeddings)).nonzero()
            if len(wrong):
                row, place = wrong[0].tolist()
                return f"token {place} has the id {int(ids[row, place])}, the model knows 0-{table.num_embeddings - 1}"
    return ""
