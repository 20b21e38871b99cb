"""What a model's forward takes, what it was given, and what it raises where that doesn't fit."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch
from torch import nn

# What models raise where an input lacks or doesn't fit.
UNFIT = (TypeError, ValueError, RuntimeError, AttributeError, LookupError, AssertionError)


def takes_any(model: nn.Module) -> bool:
    """Whether the forward takes arguments of any name."""
    parameters = signature(model.forward).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def given_to(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of one call of the forward by name, those that it doesn't name itself among them."""
    given: dict[str, Any] = dict(signature(model.forward).bind_partial(*args, **kwargs).arguments)
    given |= given.pop("kwargs", {})
    return given


def out_of_memory(error: Exception) -> bool:
    """Whether that is what a model raised: torch tells it on a GPU by a type, on a processor in words alone."""
    return isinstance(error, torch.OutOfMemoryError) or "allocate" in str(error)
