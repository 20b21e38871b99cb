"""The mistakes with a model's norms: those of the register, norms in another place, and those of q and k."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import nn

from attn_cli.kernel.definition.positions import Turning
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.lessons.mistakes.norms import Norm, norm_mistakes
from attn_cli.model.stations import AFTER_LAYERS, PlantedMistake
from attn_cli.sources.huggingface.anatomy.forward_arguments import first_float_input, with_first_float_input
from attn_cli.sources.huggingface.anatomy.hooks import first_output, hooked
from attn_cli.sources.huggingface.capture.layer_rule import Products
from attn_cli.sources.huggingface.residual.frozen_norm import freeze_norm
from attn_cli.sources.huggingface.stations.attention import Attended
from attn_cli.sources.huggingface.stations.changes import (
    Change,
    Layers,
    ModuleMistake,
    as_given,
    by_changes,
    is_made,
    of_layers,
    remade,
)
from attn_cli.sources.huggingface.stations.sites import Sites


def mistakes_of_norms(sites: Sites) -> Iterator[ModuleMistake]:
    """Mistakes with norms (gain, epsilon ...) in all norms at once, then in each kind, such as those before the MLP."""
    ends = [] if sites.final_norm is None else [(AFTER_LAYERS, sites.final_norm)]
    parts = {part: of_layers(sites, part) for part in _PLACES}
    yield from of_norms([*(norm for norms in parts.values() for norm in norms), *ends], "normed", "every norm")
    for part, (where, kind) in _PLACES.items():
        yield from of_norms(parts[part], kind, where)
    yield from _of_queries_and_keys(sites)
    yield from _moved(sites)


_PLACES = {
    "norm": ("the norm before attention", "normed"),
    "mlp_norm": ("the norm before the MLP", "mlp_normed"),
    "attention_after": ("the norm behind attention", "attention_normed"),
    "mlp_after": ("the norm behind the MLP", "mlp_output_normed"),
    "q_norm": ("the norm of q", "q"),
    "k_norm": ("the norm of k", "k"),
}
"""The norms of a layer: in words, and the station behind each."""


def norm_of(module: nn.Module) -> Norm | None:
    """A module's gain, bias and epsilon, if for random vectors it is a norm; None for any other module."""
    weight = getattr(module, "weight", None)
    sizes = [p.shape[-1] for p in module.parameters() if p.ndim == 1]
    if not sizes:
        return None
    x = torch.randn((4, sizes[0]), generator=torch.Generator().manual_seed(0)).to(next(module.parameters()))
    try:
        frozen = freeze_norm(module, x)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None
    if frozen is None:
        return None
    names = ("variance_epsilon", "eps", "epsilon", "norm_eps", "layer_norm_eps")
    epsilon = next(
        (float(getattr(module, name)) for name in names if isinstance(getattr(module, name, None), float)), 1e-6
    )
    centred = x - x.mean(-1, keepdim=True) if frozen.centred else x
    size = (centred.float().square().mean(-1, keepdim=True) + epsilon).sqrt()
    gain = (frozen.gain * size).mean(0)
    bias = frozen.bias if bool(frozen.bias.abs().max() > 0) else None
    return Norm(gain, bias, epsilon, frozen.centred, None if weight is None else weight.detach().float())


def of_norms(modules: Sequence[tuple[int, nn.Module]], kind: str, where: str) -> Iterator[ModuleMistake]:
    """The mistakes that can be made with these norms, each given with its layer; one for all norms that can have it."""
    by_name: dict[tuple[str, str], list[tuple[int, nn.Module, Change]]] = {}
    for layer, module in modules:
        norm = norm_of(module)
        for wrong in () if norm is None else norm_mistakes(norm, where):
            change = partial(remade, wrong.make)
            by_name.setdefault((wrong.name, wrong.words), []).append((layer, module, change))
    for (name, words), changes in by_name.items():
        yield from by_changes(name, words, kind, changes)


def _of_queries_and_keys(sites: Sites) -> Iterator[ModuleMistake]:
    """The norms of q and k missing, behind rotary positions, over all heads at once or each head alone."""
    both = [(layer, module) for part in ("q_norm", "k_norm") for layer, module in of_layers(sites, part)]
    if not both:
        return
    yield from by_changes("qk-norm-missing", "the norms of q and k are missing", "q",
                          [(layer, module, as_given) for layer, module in both])  # fmt: skip
    changes: list[tuple[int, nn.Module, Change]] = [(layer, module, as_given) for layer, module in both]
    words = "q and k were normed after their rotation, the model norms them before"
    one = next(by_changes("qk-norm-after-rotary", words, "q", changes))
    yield one._replace(attention=partial(_NormedLater, sites))
    heads = {layer: heads for layer, heads in enumerate(sites.heads) if heads > 1}
    for words, by_head in (
        ("over all heads at once, the model's are of each head", False),
        ("of each head, the model's are over all heads at once", True),
    ):
        changes = [(layer, module, partial(_over_other_columns, by_head, heads[layer])) for layer, module in both
                   if layer in heads]  # fmt: skip
        yield from by_changes("qk-norm-width", f"the norms of q and k are {words}", "q", changes)


def _over_other_columns(by_head: bool, heads: int, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    """An RMS norm's output with the size of each head, or of all heads; unchanged where it is of that already."""
    x: torch.Tensor = args[0]
    if by_head and x.shape[-1] % heads == 0 and x.ndim == 3:
        parts = x.reshape(*x.shape[:-1], heads, -1)
        other = parts.square().mean(-1, keepdim=True).sqrt().expand_as(parts).reshape(x.shape)
    elif not by_head and x.ndim == 4:
        axis = 2 if x.shape[2] <= heads else 1  # heads behind tokens, or before them
        other = x.square().mean((-1, axis), keepdim=True).sqrt()
    else:
        return output
    every = x.square().mean(-1, keepdim=True).sqrt()
    return output * every / other.clamp(min=1e-12)


class _NormedLater:
    """Norms of q and k that are used behind their rotation."""

    def __init__(self, sites: Sites, layers: Layers) -> None:
        self.sites, self.layers = sites, layers

    def products(self, layer: int, qkv: Products, rule: Rule, turning: Turning) -> Products | None:
        inner = self.sites.inner[layer] if layer < len(self.sites.inner) else {}
        if not is_made(layer, self.layers) or "k_norm" not in inner:
            return None
        q, k, v = qkv
        return _normed(inner["q_norm"], q), _normed(inner["k_norm"], k), v

    def attended(self, layer: int, qkv: Products, rule: Rule, turning: Turning) -> Attended | None:
        return None

    def output(self, layer: int, qkv: Products, rule: Rule, turning: Turning) -> torch.Tensor | None:
        return None


def _normed(norm: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Heads `[h, n, d]` normed each, or all together where the norm is as wide; hooks of the norm are left out."""
    sizes = [p.shape[-1] for p in norm.parameters()]
    if sizes and sizes[0] == x.shape[0] * x.shape[2] != x.shape[2]:
        joined: torch.Tensor = norm.forward(x.transpose(0, 1).flatten(1)[None])
        return joined[0].reshape(x.shape[1], x.shape[0], x.shape[2]).transpose(0, 1)
    normed: torch.Tensor = norm.forward(x[None])
    return normed[0]


def _moved(sites: Sites) -> Iterator[ModuleMistake]:
    """Norms behind attention and MLP where the model has them before, and the other way about."""
    before = [layer for layer, inner in enumerate(sites.inner) if {"norm", "mlp_norm", "attention"} <= inner.keys()
              and not {"attention_after", "mlp_after"} & inner.keys()]  # fmt: skip
    parts = {"attention_after", "mlp_after", "mlp"}
    behind = [layer for layer, inner in enumerate(sites.inner) if parts <= inner.keys()
              and not {"norm", "mlp_norm"} & inner.keys()]  # fmt: skip
    if before:
        words = "norms stand behind attention and MLP, the model's before them"
        yield ModuleMistake(PlantedMistake("norms-behind", words, "normed"), partial(_norms_behind, sites, before))
    if behind:
        words = "norms stand before attention and MLP, the model's behind them"
        yield ModuleMistake(PlantedMistake("norms-before", words, "normed"), partial(_norms_before, sites, behind))


def _norms_behind(sites: Sites, possible: Sequence[int], layers: Layers) -> AbstractContextManager[None]:
    """Context manager: x + f(norm(x)) is computed as norm(x + f(x))."""
    handles = []
    for layer in (layer for layer in possible if is_made(layer, layers)):
        inner, block = sites.inner[layer], sites.blocks[layer]

        def middle(norm: nn.Module, module: nn.Module, args: Any) -> None:
            args[0].copy_(norm.forward(args[0]))

        def last(norm: nn.Module, module: nn.Module, args: Any, output: Any) -> Any:
            made = norm.forward(first_output(output))
            return (made, *output[1:]) if isinstance(output, tuple) else made

        handles.append(inner["norm"].register_forward_hook(as_given))
        handles.append(inner["mlp_norm"].register_forward_pre_hook(partial(middle, inner["norm"])))
        handles.append(inner["mlp_norm"].register_forward_hook(as_given))
        handles.append(block.register_forward_hook(partial(last, inner["mlp_norm"])))
    return hooked(*handles)


def _norms_before(sites: Sites, possible: Sequence[int], layers: Layers) -> AbstractContextManager[None]:
    """Context manager: x + norm(f(x)) is computed as x + f(norm(x))."""
    handles = []
    for layer in (layer for layer in possible if is_made(layer, layers)):
        inner = sites.inner[layer]

        def normed(norm: nn.Module, module: nn.Module, args: Any, kwargs: Any) -> Any:
            x = first_float_input(args, kwargs)
            return None if x is None else with_first_float_input(args, kwargs, norm.forward(x))

        for part, norm in (("attention", "attention_after"), ("mlp", "mlp_after")):
            handles.append(inner[part].register_forward_pre_hook(partial(normed, inner[norm]), with_kwargs=True))
            handles.append(inner[norm].register_forward_hook(as_given))
    return hooked(*handles)
