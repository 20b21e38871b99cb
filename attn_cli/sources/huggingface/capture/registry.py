"""The registries of transformers, in which models look up their attention and their masks by name."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig, PreTrainedModel

from attn_cli.sources.huggingface.capture.layer_rule import Products
from attn_cli.sources.huggingface.capture.lazy_mask import lazy_mask
from attn_cli.sources.huggingface.compat import (
    attention_name,
    collects_attentions,
    eager_function,
    entries_of,
    set_attention_name,
)


class RegistryCall(NamedTuple):
    """The arguments that transformers gives an attention function of its registry.

    qkv      query `[b, h, n, d]`, key `[b, g, m, d]`, value `[b, g, m, e]`; g key/value heads
    scaling  the factor on q kᵀ; None for the module's own
    options  all others, by name, such as softcap; a learned sink is one number per head, or per query `[b, h, n, 1]`
    own      the user's own attention function, which the model was to call; None for one of transformers'
    """

    module: nn.Module
    qkv: Products
    mask: torch.Tensor | None
    scaling: float | None
    options: Mapping[str, Any]
    own: Callable[..., Any] | None = None
    returns_weights: bool = False


@contextmanager
def replaced(registry: Any, functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Context manager: puts functions into one of transformers' registries by name; restores it at the end."""
    entries = entries_of(registry)
    missing: Any = object()
    before = {name: entries.get(name, missing) for name in functions}
    entries.update(functions)
    try:
        yield
    finally:
        for name, function in before.items():
            if function is missing:
                entries.pop(name, None)
            else:
                entries[name] = function


Attention = Callable[[RegistryCall], tuple[torch.Tensor, torch.Tensor | None]]
"""Makes the output `[b, n, h, e]` of a call; and its weights `[b, h, n, m]`, None where nobody asks for them."""


@contextmanager
def in_registry(model: nn.Module, attention: Attention) -> Iterator[None]:
    """Context manager: `model` computes its attention by this function, and makes its masks only on demand."""

    def calling(named: Callable[..., Any] | None) -> Callable[..., Any]:
        """The entry of the registry in place of the user's function `named`, or of transformers' own ones."""

        def called(
            module: nn.Module,
            query: torch.Tensor,
            key: torch.Tensor,
            value: torch.Tensor,
            attention_mask: torch.Tensor | None = None,
            scaling: float | None = None,
            **options: Any,
        ) -> tuple[torch.Tensor, torch.Tensor | None]:
            is_eager = id(getattr(module, "config", None)) in eager_ones
            eager = eager_function(type(module)) if is_eager else None
            if is_eager and attention_mask is not None and attention_mask.dtype == torch.bool:
                attention_mask = attention_mask.to(query.dtype)  # eager attention adds it, True as 1
            own = named or (eager if _is_of_user(eager, type(module)) else None)
            asked = eager is not None and (bool(options.get("output_attentions")) or collects_attentions())
            return attention(RegistryCall(module, (query, key, value), attention_mask, scaling, options, own, asked))

        return called

    entries = entries_of(AttentionInterface)
    with _names_kept(model) as configs:
        names = {id(config): attention_name(config) or "eager" for config in configs}
        eager_ones = {at for at, name in names.items() if name == "eager"}
        functions = {name: entries[name] for name in names.values() if name in entries and "/" not in name}
        own = {name: calling(function) for name, function in functions.items() if _is_of_user(function)}
        for config in configs:  # a configuration sets those inside it, too
            name = names[id(config)]
            set_attention_name(config, name if name in own else "eager")
        with (
            replaced(AttentionInterface, {"eager": calling(None)} | own),
            replaced(AttentionMaskInterface, {"eager": lazy_mask}),
        ):
            yield


def _is_of_user(function: Callable[..., Any] | None, module_class: type | None = None) -> bool:
    if function is None:
        return False
    where = getattr(getattr(function, "func", function), "__module__", None) or ""
    is_known = where.startswith(("transformers.", "attn_cli.")) or where == getattr(module_class, "__module__", None)
    return not is_known or hasattr(function, "__wrapped__")


@contextmanager
def fused(model: PreTrainedModel) -> Iterator[None]:
    """Context manager: makes the parts of `model` that support torch's fused attention use it."""
    with _names_kept(model):
        with suppress(ValueError):  # raised for a part without support, which keeps its own
            model.set_attn_implementation("sdpa")
        yield


@contextmanager
def _names_kept(model: nn.Module) -> Iterator[list[PreTrainedConfig]]:
    configs = _configs(model)
    before = [attention_name(config) for config in configs]
    try:
        yield configs
    finally:
        for config, old in zip(configs, before, strict=True):
            set_attention_name(config, old)


def _configs(model: nn.Module) -> list[PreTrainedConfig]:
    configs: dict[int, PreTrainedConfig] = {}
    for module in model.modules():
        config = getattr(module, "config", None)
        if isinstance(config, PreTrainedConfig):
            configs.setdefault(id(config), config)
    return list(configs.values())
