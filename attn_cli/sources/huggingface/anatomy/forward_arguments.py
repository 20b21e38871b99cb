"""The arguments of a model's forward: which it takes, those of one call, and the errors for wrong ones."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch
from torch import nn

# What models raise where an input is missing or doesn't fit.
INPUT_ERRORS = (TypeError, ValueError, RuntimeError, AttributeError, LookupError, AssertionError)


def takes_any(model: nn.Module) -> bool:
    """Whether the forward takes arguments of any name."""
    parameters = signature(model.forward).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def arguments_of(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of one call of the forward by name, including those that its `**kwargs` collect."""
    arguments: dict[str, Any] = dict(signature(model.forward).bind_partial(*args, **kwargs).arguments)
    arguments |= arguments.pop("kwargs", {})
    return arguments


def out_of_memory(error: Exception) -> bool:
    """Whether the error means too little memory: torch has a type for that on a GPU, on a CPU only a message."""
    return isinstance(error, torch.OutOfMemoryError) or "allocate" in str(error)
