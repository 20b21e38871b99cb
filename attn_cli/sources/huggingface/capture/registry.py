"""The registries of transformers, in which models look up attention and masks, and the rule in its arguments."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig, PreTrainedModel

from attn_cli.errors import InputError, LoadError
from attn_cli.sources.huggingface.capture.calls import ObservedAttention
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule, Products, output_of_layer
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask, lazy_mask
from attn_cli.sources.huggingface.capture.seen_weights import SeenWeights
from attn_cli.sources.huggingface.compat import (
    TESTED_TRANSFORMERS,
    attention_name,
    collects_attentions,
    eager_function,
    entries_of,
    hidden_from_function_modes,
    replaced,
    set_attention_name,
)

# The options of attention functions that make the rule of a layer.
_USED = frozenset({"softcap", "position_bias", "s_aux", "sinks"})
# Those that eager attention ignores: its mask says the same, they are for one backend or for training alone.
_IGNORED = """dropout is_causal sliding_window cu_seq_lens_q cu_seq_lens_k max_length_q max_length_k position_ids
    seq_idx indices block_indices deterministic output_attentions output_hidden_states output_router_logits
    num_items_in_batch use_cache cache_position"""
_WITHOUT_EFFECT = frozenset(_IGNORED.split())
_FITS = "token ids are [texts, tokens], and a mask is [texts, tokens] or [texts, 1, rows, keys]"


class RegistryCall(NamedTuple):
    """The arguments that transformers gives an attention function of its registry."""

    module: nn.Module
    qkv: Products
    mask: torch.Tensor | None
    scaling: float | None  # None for the module's own
    options: Mapping[str, Any]  # a learned sink is one number per head, or per query `[b, h, n, 1]`
    own: Callable[..., Any] | None = None  # the user's attention function, which the model was to call
    returns_weights: bool = False


@contextmanager
def in_registry(model: nn.Module, attend: ObservedAttention) -> Iterator[None]:
    """Context manager: `model` computes its attention by `compute`, and makes its masks only on demand."""

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
            qkv = query, key, value
            return compute(attend, RegistryCall(module, qkv, attention_mask, scaling, options, own, asked))

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
        masks = entries_of(AttentionMaskInterface)
        with replaced(entries, {"eager": calling(None)} | own), replaced(masks, {"eager": lazy_mask}):
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
    each = (getattr(module, "config", None) for module in model.modules())
    configs = list({id(config): config for config in each if isinstance(config, PreTrainedConfig)}.values())
    before = [attention_name(config) for config in configs]
    try:
        yield configs
    finally:
        for config, old in zip(configs, before, strict=True):
            set_attention_name(config, old)


def compute(attend: ObservedAttention, call: RegistryCall) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The output `[b, n, h, e]` in the query's dtype, and the weights where the model puts them out."""
    if call.own is not None:
        return _by_own(attend, call, call.own)
    eager = eager_function(type(call.module))
    attend.ledger.dropouts[call.module] = dropout = call.options.get("dropout") or 0.0
    rule = rule_of_layer(call)
    # This softmax or SDPA is attn's, not the model's, so it is hidden from the function mode.
    with torch.no_grad(), hidden_from_function_modes():
        output = attend.of_products(call.module, "registry", call.qkv, rule)
        weights = None
        if eager is not None and (dropout or call.returns_weights):
            theirs, weights = called_as(eager, call)
            output = theirs.transpose(1, 2) if dropout else output
        if output is None:
            output = output_of_layer(rule, *call.qkv)
    return output.to(call.qkv[0].dtype).transpose(1, 2).contiguous(), weights


def _by_own(
    attend: ObservedAttention, call: RegistryCall, own: Callable[..., Any]
) -> tuple[torch.Tensor, torch.Tensor | None]:
    output, weights = called_as(own, call)
    with hidden_from_function_modes():
        if isinstance(weights, torch.Tensor) and weights.ndim == 4:
            attend.of_softmax(call.module, "registry", SeenWeights(weights, None, weights.dtype))
        else:
            name = getattr(own, "__name__", type(own).__name__)
            attend.ledger.record_unseen(call.module, f"by {name}, which returns no weights")
    return output, weights


def called_as(eager: Callable[..., Any], call: RegistryCall) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The output `[b, n, h, e]` and the weights of an attention function, called as the registry calls it."""
    module, qkv, mask, scaling, options, *_ = call
    named = {} if scaling is None else {"scaling": scaling}
    output, weights = eager(module, *qkv, mask, **named, **options)
    return output, weights


def rule_of_layer(call: RegistryCall) -> LayerRule:
    """The scale, mask, bias and sink of a layer, from what its attention function is called with."""
    module, (query, key, _), mask, scaling, options, *_ = call
    given = frozenset(name for name, value in options.items() if value is not None)
    module_class: Any = type(module)  # whose static type isn't hashable
    if unknown := _unknown(module_class, given):
        line = f"{type(module).__name__} gives its attention {', '.join(unknown)}, which attn doesn't know"
        raise LoadError(line, f"attn is tested with transformers {TESTED_TRANSFORMERS}: a newer attn may know it")
    mask = _fitting(module, query, key, mask)
    sink, sink_per_query = options.get("s_aux"), None
    sink = options.get("sinks") if sink is None else sink
    if sink is not None and sink.numel() != query.shape[1]:
        sink, sink_per_query = None, sink
    sink = None if sink is None else sink.detach().float().reshape(-1)
    scale = scaling if scaling is not None else getattr(module, "scaling", None) or query.shape[-1] ** -0.5
    return LayerRule(float(scale), options.get("softcap"), options.get("position_bias"), sink, mask, sink_per_query)


@cache
def _unknown(module_class: Any, names: frozenset[str]) -> list[str]:
    eager = eager_function(module_class)
    return sorted(
        name for name in names - _USED - _WITHOUT_EFFECT if eager is None or name in signature(eager).parameters
    )


def _fitting(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor | None:
    """The mask, whole numbers as floats to add; InputError where it, or a query or key, has axes that don't fit."""
    shapes = [tuple(x.shape) for x in (query, key) if x.ndim != 4]
    if shapes:
        raise InputError(f"{type(module).__name__} got a query or key of shape {shapes[0]}, not [b, h, n, d]", _FITS)
    if mask is None or isinstance(mask, LazyMask):
        return mask
    cells = (*query.shape[:3], key.shape[2])
    if mask.ndim != 4 or any(size not in (1, cell) for size, cell in zip(mask.shape, cells, strict=True)):
        raise InputError(f"{type(module).__name__} got a mask of shape {tuple(mask.shape)} for scores {cells}", _FITS)
    return mask if mask.dtype == torch.bool or mask.is_floating_point() else mask.to(query.dtype)
