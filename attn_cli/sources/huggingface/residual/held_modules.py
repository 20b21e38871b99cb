"""Modules of a pass as linear maps: norms with their statistics held, and constants, which no gradient reaches."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import nn

from attn_cli.sources.huggingface.residual.frozen_norm import FrozenNorm, freeze_call

Function = Callable[[torch.Tensor], torch.Tensor]


@dataclass
class Constants:
    """The sum of what constants (biases of norms and of modules) add to the number whose gradient is taken: `total`.

    are_added  whether there were any so far
    """

    total: float = 0.0
    are_added: bool = False

    def add(self, gradient: torch.Tensor, constant: torch.Tensor) -> None:
        """Add what a constant gives to the number whose gradient is taken: its dot product with `gradient`.

        gradient  that of the number, by the tensor to which the constant is added
        """
        self.are_added = True
        self.total += float((gradient * constant).sum())


def of_tensor(module: nn.Module, x: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Function:
    """A module as a function of the one tensor x among its arguments, all others staying as they were."""

    def function(y: torch.Tensor) -> torch.Tensor:
        given = tuple(y if value is x else value for value in args)
        named = {name: y if value is x else value for name, value in kwargs.items()}
        output: torch.Tensor = module.forward(*given, **named)
        return output

    return function


class BiasHook:
    """Gradient hook of a module's output: adds what its bias, its output for zeros, gives to the number differentiated.

    constants  the sum over all biases
    """

    def __init__(self, module: Function, given: torch.Tensor, constants: Constants) -> None:
        self.module, self.given, self.constants = module, given, constants

    def __call__(self, gradient: torch.Tensor) -> None:
        """Take in the gradient of the module's output."""
        if self.constant is not None:
            self.constants.add(gradient, self.constant)

    @cached_property
    def constant(self) -> torch.Tensor | None:
        """The module's output for zeros in the shape of its input, so its bias; None where that is 0."""
        with torch.no_grad():
            constant = self.module(torch.zeros_like(self.given))
        return constant if bool(constant.any()) else None


class _HeldModule:
    """A module for derivatives: a norm is linear, with its divisor held fixed; any other module is as it is."""

    def __init__(self, module: Function, x: torch.Tensor, constants: Constants) -> None:
        self.module, self.x, self.constants = module, x, constants

    @cached_property
    def norm(self) -> FrozenNorm | None:
        """The module frozen at its input, if it is a norm."""
        with torch.no_grad():
            held = freeze_call(self.module, self.x)
        self.is_biased = held is not None and bool(held.bias.any())
        return held

    def gradient(self, of_output: torch.Tensor) -> torch.Tensor:
        """The gradient of the input."""
        if self.norm is None:
            with torch.enable_grad():
                x = self.x.requires_grad_()
                (as_it_is,) = torch.autograd.grad(self.module(x), x, of_output)
            return as_it_is
        if self.is_biased:
            self.constants.add(of_output, self.norm.bias)
        of_input = of_output * self.norm.gain.to(of_output.dtype)
        return of_input - of_input.mean(-1, keepdim=True) if self.norm.centred else of_input


class Held(torch.autograd.Function):
    """Autograd function: a module's output as it was, whose gradient is that of the module with frozen statistics.

    Only a norm has such; any other module has its own gradient.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, output: torch.Tensor, module: Function, constants: Constants) -> Any:
        """The output unchanged, as a node of the graph whose only input with a gradient is x."""
        ctx.held = _HeldModule(module, x.detach(), constants)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *of_output: torch.Tensor) -> Any:
        """The gradient of x, from that of the output; None for the other arguments of `forward`."""
        return ctx.held.gradient(*of_output), None, None, None
