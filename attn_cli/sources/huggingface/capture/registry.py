"""The registries of transformers, in which models look up their attention and their masks by name."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, PreTrainedConfig, PreTrainedModel
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    sliding_window_causal_mask_function,
)

from attn_cli.errors import InputError, LoadError
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule, rule_of_layer
from attn_cli.sources.huggingface.capture.lazy_mask import lazy_mask

Observer = Callable[[nn.Module, torch.Tensor, torch.Tensor, torch.Tensor, LayerRule], None]
# Backends whose masks can be read: booleans, numbers, or a row of real keys; flex attention's are compiled blocks.
READABLE = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flash_attention_4")


@contextmanager
def replaced(registry: Any, functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Context manager: puts these functions into `registry` under their names, and restores its entries at the end."""
    entries = registry._global_mapping
    missing = object()
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


@contextmanager
def all_named(model: PreTrainedModel, name: str) -> Iterator[None]:
    """Context manager: makes all parts of `model` look their attention up under `name`."""
    with _names_kept(model) as configs:
        for config in configs:
            config._attn_implementation = name
        yield


@contextmanager
def fused(model: PreTrainedModel) -> Iterator[None]:
    """Context manager: makes the parts of `model` that support torch's fused attention use it."""
    with _names_kept(model):
        with suppress(ValueError):  # raised for a part without support, which keeps its own
            model.set_attn_implementation("sdpa")
        yield


@contextmanager
def _names_kept(model: PreTrainedModel) -> Iterator[list[PreTrainedConfig]]:
    """Context manager: yields the model's configurations, and restores their attention names at the end."""
    configs = _configs(model)
    before = [config._attn_implementation for config in configs]
    try:
        yield configs
    finally:
        for config, old in zip(configs, before, strict=True):
            config._attn_implementation = old


def watched_backends(model: PreTrainedModel, observer: Observer) -> dict[str, Callable[..., Any]]:
    """By backend that `model` uses: a function that calls the backend, then `observer` with the same arguments.

    Raises InputError for a backend whose masks can't be read.
    """
    names = {config._attn_implementation for config in _configs(model)} - {None}
    for name in names:
        if name not in READABLE:
            raise InputError(f"the masks of {name} can't be read", f"load the model with one of {', '.join(READABLE)}")
    return {name: _observed_function(name, observer) for name in names}


def _observed_function(name: str, observer: Observer) -> Callable[..., Any]:
    entry = AttentionInterface._global_mapping.get(name)

    def attention(
        module: nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **options: Any,
    ) -> Any:
        # A model's own eager function is not in the registry but in the Python module of the attention class.
        function = entry or sys.modules[type(module).__module__].eager_attention_forward
        with (
            torch._C.DisableTorchFunction()
        ):  # its softmax is no softmax of the model's own: the function mode must not see it
            result = function(module, query, key, value, attention_mask, **options)
        mask = _whole_mask(name, module, query, key, attention_mask, options)
        layer_rule, sink_per_query = rule_of_layer(module, query, key, mask, options.get("scaling"), options)
        if sink_per_query is not None:
            raise LoadError(
                f"{type(module).__name__} has a sink for every query, not one for a head", "leave out --backend"
            )
        observer(module, query, key, value, layer_rule)
        return result

    return attention


def _whole_mask(
    name: str, module: nn.Module, query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, options: Any
) -> torch.Tensor | None:
    """The whole mask `[b, 1, n, m]` of a call of backend `name`: of its mask, its `is_causal` and its window.

    None where every query may attend to every key.
    """
    n, m = query.shape[2], key.shape[2]
    if name == "eager" or (mask is not None and mask.ndim > 2):
        return mask
    causal = options.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    if name == "sdpa" and (n == 1 or not causal):
        return None
    function: Callable[..., Any] | None = None
    window = options.get("sliding_window") if name != "sdpa" else None
    if causal:
        function = sliding_window_causal_mask_function(window) if window else causal_mask_function
    if function is None and mask is None:
        return None
    return lazy_mask(
        batch_size=query.shape[0],
        q_length=n,
        kv_length=m,
        # torch's SDPA counts queries from the first key, flash attention up to the last.
        q_offset=0 if name == "sdpa" else m - n,
        mask_function=function or bidirectional_mask_function,
        attention_mask=mask,
        device=query.device,
    )


def _configs(model: PreTrainedModel) -> list[PreTrainedConfig]:
    """Every configuration object in the model, once."""
    configs = {id(model.config): model.config}
    for module in model.modules():
        config = getattr(module, "config", None)
        if isinstance(config, PreTrainedConfig):
            configs.setdefault(id(config), config)
    return list(configs.values())
