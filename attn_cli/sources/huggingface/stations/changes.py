"""What a mistake in a module changes for one pass: outputs, attributes, modules in each other's place."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from attn_cli.model.stations import BEFORE_LAYERS, PlantedMistake
from attn_cli.sources.huggingface.anatomy.hooks import first_output, hooked
from attn_cli.sources.huggingface.stations.attention import WrongAttention
from attn_cli.sources.huggingface.stations.sites import Sites

Layers = Collection[int] | None
"""The layers in which a mistake is made; None for all."""

Change = Callable[[nn.Module, Any, torch.Tensor], torch.Tensor]
"""Gets a module, its positional arguments and its output; returns the wrong output."""


class ModuleMistake(NamedTuple):
    """A mistake that an implementation of a module may have, and what makes it on purpose in chosen layers (None: all).

    planted    its name, a clause on the likely cause, and where in a layer it changes numbers first, as "q"
    made       gives by the layers a context manager in which passes have the mistake
    attention  gives by the layers its part in attention; None where it has none
    """

    planted: PlantedMistake
    made: Callable[[Layers], AbstractContextManager[None]]
    attention: Callable[[Layers], WrongAttention] | None = None


def changed(changes: Sequence[tuple[int, nn.Module, Change]], layers: Layers) -> Any:
    """Context manager: modules return changed outputs in the given layers; None for all layers."""

    def hook(change: Change, module: nn.Module, args: Any, output: Any) -> Any:
        made = change(module, args, first_output(output))
        return (made, *output[1:]) if isinstance(output, tuple) else made

    chosen = [(module, change) for layer, module, change in changes if is_made(layer, layers)]
    return hooked(*(module.register_forward_hook(partial(hook, change)) for module, change in chosen))


def is_made(layer: int, layers: Layers) -> bool:
    """True if a mistake is made in this layer: it is among `layers`, or these are None."""
    return layers is None or layer in layers or layer == BEFORE_LAYERS


def by_changes(
    name: str, words: str, kind: str, changes: Sequence[tuple[int, nn.Module, Change]]
) -> Iterator[ModuleMistake]:
    """The mistake that is made by these changes of modules' outputs, as one item; nothing without changes."""
    if changes:
        yield ModuleMistake(PlantedMistake(name, words, kind), partial(changed, list(changes)))


def of_layers(sites: Sites, part: str) -> list[tuple[int, nn.Module]]:
    """For every layer that has a module of this part, such as "mlp" or "w_o": the layer's number, and the module."""
    return [(layer, inner[part]) for layer, inner in enumerate(sites.inner) if part in inner]


def remade(make: Callable[[Any], Any], module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    """What `make` makes of a module's first input, in float32 and then in the dtype of `output`, which it replaces."""
    made: torch.Tensor = make(args[0].float()).to(output.dtype)
    return made


def as_given(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    """A module's first input in place of its output: the change that leaves the module out."""
    given: torch.Tensor = args[0]
    return given


def shape_of(module: nn.Module) -> tuple[int, ...]:
    """The shape of a module's weight tensor; () for a module without one."""
    weight = getattr(module, "weight", None)
    return tuple(weight.shape) if isinstance(weight, torch.Tensor) else ()


def width_of(module: nn.Module) -> int:
    """The output width of a linear module: how many numbers it gives per token."""
    shape = shape_of(module)
    return 1 if not shape else shape[0] if isinstance(module, nn.Linear) else shape[-1]


def inputs_of(module: nn.Module) -> int:
    """The numbers that a linear module takes per token; 0 where it has no weight."""
    shape = shape_of(module)
    return 0 if not shape else shape[-1] if isinstance(module, nn.Linear) else shape[0]


@contextmanager
def set_to(values: Sequence[tuple[int, Any, str, Any]], layers: Layers) -> Iterator[None]:
    """Context manager: objects' attributes have other values in the given layers, None for all."""
    before = [(owner, name, getattr(owner, name)) for _, owner, name, _ in values]
    try:
        for layer, owner, name, value in values:
            if is_made(layer, layers):
                setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


@contextmanager
def exchanged(pairs: Sequence[tuple[int, nn.Module, nn.Module]], layers: Layers) -> Iterator[None]:
    """Context manager: the modules of each pair, given with their layer, compute in each other's place."""
    with ExitStack() as stack:
        for layer, one, other in pairs:
            if is_made(layer, layers):
                handles = [
                    one.register_forward_hook(partial(_computed_by, type(other).forward, other)),
                    other.register_forward_hook(partial(_computed_by, type(one).forward, one)),
                ]
                stack.enter_context(hooked(*handles))
        yield


def _computed_by(forward: Any, instead: nn.Module, module: nn.Module, args: Any, output: Any) -> Any:
    return forward(instead, *args)
