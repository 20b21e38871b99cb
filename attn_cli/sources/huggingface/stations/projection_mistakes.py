"""The mistakes with a model's linear layers: biases left out, q, k and v in another order."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import nn

from attn_cli.kernel.lessons.mistakes.register import JOINED_BY_RESHAPE
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
    of_layers,
    shape_of,
    width_of,
)
from attn_cli.sources.huggingface.stations.sites import Sites


def _without_bias(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    bias = module.bias
    assert isinstance(bias, torch.Tensor)
    return output - bias


def mistakes_of_biases(sites: Sites) -> Iterator[ModuleMistake]:
    """Mistakes that leave biases out: those of q, k and v together, of W_O, of the MLP, of all linear layers."""
    biased = [
        (layer, module, part)
        for layer, parts in enumerate(sites.linear)
        for part, modules in parts.items()
        for module in modules
        if isinstance(getattr(module, "bias", None), torch.Tensor)
    ]
    places = {"qkv": ("q, k and v", "q_projected"), "w_o": ("W_O", "attention"), "mlp": ("the MLP", "mlp")}
    for part, (words, kind) in places.items():
        changes = [(layer, module, _without_bias) for layer, module, own in biased if own == part]
        noun = "bias" if part == "w_o" else "biases"
        yield from by_changes(
            "bias-missing", f"the {noun} of {words} {'is' if part == 'w_o' else 'are'} missing", kind, changes
        )
    if len({part for _, _, part in biased}) > 1:
        changes = [(layer, module, _without_bias) for layer, module, _ in biased]
        yield from by_changes("biases-missing", "all biases of linear layers are missing", "q_projected", changes)


def mistakes_of_projections(sites: Sites) -> Iterator[ModuleMistake]:
    """Mistakes in the order of q, k and v: k and v exchanged, a joint projection split otherwise, columns permuted."""
    swapped: list[tuple[int, nn.Module, nn.Module]] = []
    joint: list[tuple[int, nn.Module]] = []
    for layer, parts in enumerate(sites.linear):
        modules = parts.get("qkv", [])
        if len(modules) == 3 and shape_of(modules[1]) == shape_of(modules[2]):
            swapped.append((layer, modules[1], modules[2]))
        if len(modules) == 1 and width_of(modules[0]) % 3 == 0:
            joint.append((layer, modules[0]))
    if swapped:
        words = "k and v are in each other's place: q, k, v were split in another order"
        yield ModuleMistake(PlantedMistake("qkv-order", words, "q_projected"), partial(exchanged, swapped))
    for order in ((0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)):
        named = ", ".join("qkv"[part] for part in order)
        yield from by_changes("qkv-order", f"the joint projection was split as {named}, it is q, k, v", "q_projected",
                            [(layer, module, partial(_thirds, order)) for layer, module in joint])  # fmt: skip
    for heads in sorted({heads for heads in sites.heads if heads > 1}):
        for words, by_head in (
            ("head by head, it is q, k, v for all heads", True),
            ("as q, k, v for all heads, it is head by head", False),
        ):
            changes = [(layer, module, partial(_recut, heads, by_head)) for layer, module in joint]
            yield from by_changes("qkv-layout", f"the joint projection was split {words}", "q_projected", changes)

    yield from _permuted(sites)
    yield from _joined(sites)


def _joined(sites: Sites) -> Iterator[ModuleMistake]:
    """Heads joined by a reshape before W_O, for attention whose products can't be seen."""
    found = [(layer, module, sites.heads[layer]) for layer, module in of_layers(sites, "w_o")
             if sites.heads[layer] > 1 and inputs_of(module) % sites.heads[layer] == 0]  # fmt: skip

    def joined(heads: int, module: nn.Module, args: Any) -> Any:
        x = args[0].reshape(*args[0].shape[:-1], heads, -1).transpose(-3, -2)
        return (x.reshape(args[0].shape), *args[1:])

    def made(layers: Layers) -> AbstractContextManager[None]:
        chosen = [(module, heads) for layer, module, heads in found if is_made(layer, layers)]
        return hooked(*(module.register_forward_pre_hook(partial(joined, heads)) for module, heads in chosen))

    if found:
        yield ModuleMistake(PlantedMistake("heads-joined-by-reshape", JOINED_BY_RESHAPE, "w_o_input"), made)


def _permuted(sites: Sites) -> Iterator[ModuleMistake]:
    """The columns of every head of q and k in the order for the other pairs of rotary positions."""
    own = [(layer, module, sites.heads[layer]) for layer, parts in enumerate(sites.linear)
           for module in parts.get("qkv", [])[:2] if len(parts.get("qkv", [])) == 3]  # fmt: skip
    for words, interleave in (
        ("from halves to pairs, as conversions do for other rotary code", True),
        ("from pairs to halves, as conversions do for other rotary code", False),
    ):
        changes: list[tuple[int, nn.Module, Change]] = []
        for layer, module, heads in own:
            d = _width_of_head(sites, layer, heads)
            if d > 2 and d % 2 == 0 and width_of(module) % d == 0:
                changes.append((layer, module, partial(_reordered, d, interleave)))
        yield from by_changes(
            "heads-permuted", f"the columns of every head of q and k were permuted {words}", "q_projected", changes
        )


def _width_of_head(sites: Sites, layer: int, heads: int) -> int:
    modules = sites.linear[layer].get("qkv", [])
    return width_of(modules[0]) // heads if heads and modules else 0


def _reordered(d: int, interleave: bool, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    pairs = (2, d // 2) if interleave else (d // 2, 2)
    return output.reshape(*output.shape[:-1], -1, *pairs).transpose(-1, -2).flatten(-3)


def _thirds(order: tuple[int, ...], module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    parts = output.chunk(3, -1)
    return torch.cat([parts[order.index(part)] for part in range(3)], -1)


def _recut(heads: int, by_head: bool, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    d = output.shape[-1] // (3 * heads)
    before = (heads, 3, d) if by_head else (3, heads, d)
    return output.reshape(*output.shape[:-1], *before).transpose(-3, -2).flatten(-3)
