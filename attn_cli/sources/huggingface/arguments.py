"""What a model's forward takes, and what it was given."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from torch import nn


def takes_any(model: nn.Module) -> bool:
    """Whether the forward takes arguments of any name."""
    parameters = signature(model.forward).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def given_to(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of one call of the forward by name, those that it doesn't name itself among them."""
    given: dict[str, Any] = dict(signature(model.forward).bind_partial(*args, **kwargs).arguments)
    given |= given.pop("kwargs", {})
    return given
