"""The mistakes with a model's MLPs and experts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from attn_cli.model.stations import PlantedMistake
from attn_cli.sources.huggingface.anatomy.hooks import hooked
from attn_cli.sources.huggingface.stations.changes import (
    Change,
    Layers,
    ModuleMistake,
    by_changes,
    exchanged,
    inputs_of,
    is_made,
    remade,
    set_to,
    shape_of,
    width_of,
)
from attn_cli.sources.huggingface.stations.routes import Route, places_of_route
from attn_cli.sources.huggingface.stations.sites import Sites

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": functional.gelu,
    "gelu by tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "relu": functional.relu,
    "squared relu": lambda x: functional.relu(x).square(),
    "quick gelu": lambda x: x * torch.sigmoid(1.702 * x),
}


def activation_of(module: torch.nn.Module) -> str | None:
    """The name of the activation that a module is, such as "gelu" or "silu", by its outputs for numbers from -3 to
    3.
    """
    x = torch.linspace(-3, 3, 25)
    try:
        with torch.no_grad():
            y = module(x)
    except (TypeError, ValueError, RuntimeError, IndexError):
        return None
    if not isinstance(y, torch.Tensor) or y.shape != x.shape:
        return None
    return next((name for name, of in ACTIVATIONS.items() if torch.allclose(of(x), y.float(), atol=1e-6)), None)


def mistakes_of_mlps(sites: Sites) -> Iterator[ModuleMistake]:
    """Mistakes of MLPs: another activation, gate and up in each other's place."""
    right: dict[int, list[tuple[nn.Module, str]]] = {}
    for layer, modules in enumerate(sites.activations):
        right[layer] = [(module, name) for module in modules if (name := activation_of(module)) is not None]
    names = {name for pairs in right.values() for _, name in pairs}
    for other, of in ACTIVATIONS.items():
        changes = [(layer, module, partial(remade, of)) for layer, pairs in right.items() for module, name in pairs
                   if name != other]  # fmt: skip
        if changes:
            words = f"the activation is {other}, the model's is {' or '.join(sorted(names - {other}))}"
            yield from by_changes("activation", words, "mlp", changes)
    pairs = []
    halves: list[tuple[int, nn.Module, Change]] = []
    for layer, parts in enumerate(sites.linear):
        modules = parts.get("mlp", [])
        gated = list(_gated(sites.blocks[layer], modules))
        pairs += [(layer, gate, up) for gate, up in gated]
        if not gated and len(modules) == 2 and width_of(modules[0]) == 2 * inputs_of(modules[1]):
            halves.append((layer, modules[0], _halves))
    words = "gate and up are in each other's place"
    if pairs:
        yield ModuleMistake(PlantedMistake("gate-up-swapped", words, "mlp"), partial(exchanged, pairs))
    yield from by_changes("gate-up-swapped", words, "mlp", halves)


def _gated(block: nn.Module, linear: Sequence[nn.Module]) -> Iterator[tuple[nn.Module, nn.Module]]:
    for module in block.modules():
        own = [child for child in module.children() if child in linear]
        if len(own) == 3 and shape_of(own[0]) == shape_of(own[1]) == shape_of(own[2])[::-1]:
            yield own[0], own[1]


def _halves(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    return torch.cat(output.chunk(2, -1)[::-1], -1)


def mistakes_of_experts(sites: Sites) -> Iterator[ModuleMistake]:
    """Mistakes with experts: their weights normalised or not, the wrong experts, one too few, missing factors on their
    output or on what a block adds to the residual stream.
    """
    normed: list[tuple[int, Any, str, Any]] = []
    fewer: list[tuple[int, Any, str, Any]] = []
    factors: dict[str, list[tuple[int, Any, str, Any]]] = {}
    for layer, block in enumerate(sites.blocks):
        for module in block.modules():
            if isinstance(getattr(module, "norm_topk_prob", None), bool):
                normed.append((layer, module, "norm_topk_prob", not module.norm_topk_prob))
            count = getattr(module, "top_k", None)
            if isinstance(count, int) and count > 1:
                fewer.append((layer, module, "top_k", count - 1))
            for name in ("residual_multiplier", "routed_scaling_factor"):
                value = getattr(module, name, None)
                if isinstance(value, int | float) and value != 1:
                    factors.setdefault(name, []).append((layer, module, name, 1.0))
    for name, words, values, kind in (
        ("experts-not-normalised", "the weights of a token's experts are normalised the other way about", normed,
         "mlp"),
        ("experts-fewer", "one expert too few was chosen for each token", fewer, "mlp"),
        ("residual-multiplier-missing", "the residual multiplier is missing", factors.get("residual_multiplier"),
         "residual_mid"),
        ("expert-factor-missing", "the factor on the experts' output is missing", factors.get("routed_scaling_factor"),
         "mlp"),
    ):  # fmt: skip
        if values:
            yield ModuleMistake(PlantedMistake(name, words, kind), partial(set_to, values))
    yield from _routed(sites)


def _routed(sites: Sites) -> Iterator[ModuleMistake]:
    """Other experts than those that the router chose, or other weights of theirs."""
    routers = [(layer, module) for layer, found in enumerate(sites.routers) for module in found]
    if not routers:
        return
    for name, words, change in (
        ("experts-not-normalised", "the weights of a token's experts are those of the softmax over all experts",
         _weights_of_all),
        ("experts-normalised", "the weights of a token's experts were normalised to the sum 1", _normalised),
        ("experts-next", "each token got the expert after its own: they were counted from 1", _next),
        ("experts-lowest", "the experts with the lowest scores were chosen", _lowest),
        ("experts-weights-missing", "the outputs of a token's experts were averaged without their weights", _alike),
    ):  # fmt: skip
        yield ModuleMistake(PlantedMistake(name, words, "mlp"), partial(_routed_otherwise, routers, change))


def _routed_otherwise(
    routers: Sequence[tuple[int, nn.Module]], change: Callable[[Route], Route], layers: Layers
) -> AbstractContextManager[None]:
    """Context manager: routers return another route."""

    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        at = places_of_route(output)
        if at is None:
            return None
        scores, weights, chosen = at
        route = change(Route(None if scores is None else output[scores], output[weights], output[chosen]))
        made = list(output)
        made[weights], made[chosen] = route.weights.to(output[weights]), route.chosen
        return tuple(made)

    return hooked(*(module.register_forward_hook(hook) for layer, module in routers if is_made(layer, layers)))


def _weights_of_all(route: Route) -> Route:
    if route.scores is None:
        return route
    return route._replace(weights=route.scores.float().softmax(-1).gather(-1, route.chosen))


def _normalised(route: Route) -> Route:
    return route._replace(weights=route.weights / route.weights.sum(-1, keepdim=True))


def _next(route: Route) -> Route:
    count = int(route.chosen.max()) + 1 if route.scores is None else route.scores.shape[-1]
    return route._replace(chosen=(route.chosen + 1) % count)


def _lowest(route: Route) -> Route:
    if route.scores is None:
        return route
    return route._replace(chosen=(-route.scores).topk(route.chosen.shape[-1], -1).indices)


def _alike(route: Route) -> Route:
    return route._replace(weights=torch.full_like(route.weights, 1 / route.weights.shape[-1]))
