"""The function that transformers calls for every layer while a capture is open, and the rule in its arguments."""

from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

import torch
from torch import nn

from attn_cli.errors import InputError, LoadError
from attn_cli.sources.huggingface.capture.attend import Attend
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule, output_of_layer
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask
from attn_cli.sources.huggingface.capture.registry import RegistryCall
from attn_cli.sources.huggingface.compat import TESTED_TRANSFORMERS, eager_function, hidden_from_function_modes

# The options of attention functions that make the rule of a layer.
_USED = frozenset({"softcap", "position_bias", "s_aux", "sinks"})
# Those that eager attention ignores: its mask says the same, they are for one backend or for training alone.
_WITHOUT_EFFECT = frozenset({
    "dropout", "is_causal", "sliding_window", "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k",
    "position_ids", "seq_idx", "indices", "block_indices", "deterministic", "output_attentions", "output_hidden_states",
    "output_router_logits", "num_items_in_batch", "use_cache", "cache_position",
})  # fmt: skip
_FITS = "token ids are [texts, tokens]; a mask is [texts, tokens] or [texts, 1, rows, keys]"


class AttentionFunction:
    """Stands in transformers' registry and passes calls on to `attend`."""

    def __init__(self, attend: Attend) -> None:
        self.attend = attend

    def compute(self, call: RegistryCall) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The output `[b, n, h, e]` in the query's dtype, and the weights where the model puts them out."""
        if call.own is not None:
            return self._by_own(call, call.own)
        eager = eager_function(type(call.module))
        self.attend.ledger.dropouts[call.module] = dropout = call.options.get("dropout") or 0.0
        rule = rule_of_layer(call)
        # This softmax or SDPA is attn's, not the model's, so it is hidden from the function mode.
        with torch.no_grad(), hidden_from_function_modes():
            output = self.attend.of_products(call.module, "registry", call.qkv, rule)
            weights = None
            if eager is not None and (dropout or call.returns_weights):
                theirs, weights = called_as(eager, call)
                output = theirs.transpose(1, 2) if dropout else output
            if output is None:
                output = output_of_layer(rule, *call.qkv)
        return output.to(call.qkv[0].dtype).transpose(1, 2).contiguous(), weights

    def _by_own(self, call: RegistryCall, own: Callable[..., Any]) -> tuple[torch.Tensor, torch.Tensor | None]:
        output, weights = called_as(own, call)
        with hidden_from_function_modes():
            if isinstance(weights, torch.Tensor) and weights.ndim == 4:
                self.attend.of_softmax(call.module, "registry", weights, None)
            else:
                name = getattr(own, "__name__", type(own).__name__)
                self.attend.ledger.record_unseen(call.module, f"by {name}, which returns no weights")
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
        raise LoadError(
            f"{type(module).__name__} gives its attention {', '.join(unknown)}, which attn doesn't know",
            f"attn is tested with transformers {TESTED_TRANSFORMERS}; a newer attn may know it",
        )
    mask = _fitting(module, query, key, mask)
    sink, sink_per_query = sink_of(options.get("s_aux"), options.get("sinks")), None
    if sink is not None and sink.numel() != query.shape[1]:
        sink, sink_per_query = None, sink
    sink = None if sink is None else sink.detach().float().reshape(-1)
    scale = scale_of(module, query, scaling)
    return LayerRule(scale, options.get("softcap"), options.get("position_bias"), sink, mask, sink_per_query)


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


def scale_of(module: nn.Module, query: torch.Tensor, scaling: float | None) -> float:
    """The factor on q kᵀ: the call's `scaling`, else the module's own, else 1 / sqrt(d), d the width of a query."""
    return float(scaling if scaling is not None else getattr(module, "scaling", None) or query.shape[-1] ** -0.5)


def sink_of(s_aux: torch.Tensor | None, sinks: torch.Tensor | None) -> torch.Tensor | None:
    """The learned sink, a score in each row's softmax that belongs to no key; None without one."""
    return s_aux if s_aux is not None else sinks
