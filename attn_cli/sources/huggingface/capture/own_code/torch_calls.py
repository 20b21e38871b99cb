"""Calls of torch's SDPA and multi-head attention in a model's own code, as attention calls."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from attn_cli.sources.huggingface.capture.calls import ObservedAttention
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask, lazy_mask
from attn_cli.sources.huggingface.capture.own_code.seen_weights import heads_in
from attn_cli.sources.huggingface.compat import causal_mask_function


@torch.no_grad()
def sdpa_output(
    attend: ObservedAttention, module: nn.Module, arguments: dict[str, Any], *, are_heads_first: bool
) -> torch.Tensor | None:
    """The output `[..., n, e]` of a call of torch's SDPA that `attend` sees; None to leave it to SDPA."""
    query, key, value = (arguments[name] for name in ("query", "key", "value"))
    mask, scale, dropout = (arguments.get(name) for name in ("attn_mask", "scale", "dropout_p"))
    if mask is not None and arguments.get("is_causal"):
        return None  # torch refuses both
    attend.ledger.dropouts[module] = dropout or 0.0
    texts = attend.ledger.labels.size
    h = query.shape[-3] if query.ndim > 3 else heads_in(query.shape[0], module, texts) if query.ndim == 3 else 1
    q, k, v = (x.transpose(0, 1) if are_heads_first else _with_four_axes(x, h) for x in (query, key, value))
    if mask is not None and not isinstance(mask, LazyMask):
        if mask.ndim != 4 or are_heads_first:
            mask = mask.expand(*query.shape[:-1], key.shape[-2])
            mask = mask.transpose(0, 1) if are_heads_first else _with_four_axes(mask, h)
        mask = mask.expand(*mask.shape[:2], q.shape[2], k.shape[2])  # [b, h, n, m]
    elif arguments.get("is_causal"):
        mask = causal_mask(q, k)
    rule = LayerRule(float(scale) if scale is not None else query.shape[-1] ** -0.5, mask=mask)
    output = attend.of_products(module, "sdpa", (q, k, v), rule)  # [b, h, n, e]
    if output is None or dropout:
        return None
    output = output.transpose(0, 1) if are_heads_first else output
    return output.to(query.dtype).reshape(*query.shape[:-1], value.shape[-1])


def causal_mask(q: torch.Tensor, k: torch.Tensor) -> LazyMask:
    """The mask `[b, 1, n, m]` that `is_causal` stands for: query i may attend to keys 0 .. i."""
    return lazy_mask(
        batch_size=q.shape[0],
        q_length=q.shape[2],
        kv_length=k.shape[2],
        mask_function=causal_mask_function,
        device=q.device,
    )


def _with_four_axes(x: torch.Tensor, h: int) -> torch.Tensor:
    if x.ndim <= 3:
        return x.reshape(-1, h if x.ndim == 3 and x.shape[0] % h == 0 else 1, *x.shape[-2:])
    return x.flatten(0, x.ndim - 4)


_OTHER = ("bias_k", "bias_v", "static_k", "static_v")  # arguments that put further keys beside those of the tokens


def is_plain(call: Mapping[str, Any]) -> bool:
    """True for a call of torch's multi-head attention whose keys are its tokens' alone, and that returns no weights."""
    if call["query"].shape[-1] != call["embed_dim_to_check"]:
        return False
    others = any(call[name] is not None for name in _OTHER) or call["add_zero_attn"]
    return not others and not call["need_weights"] and not (call["training"] and call["dropout_p"])


@torch.no_grad()
def multi_head_output(attend: ObservedAttention, module: nn.Module, call: Mapping[str, Any]) -> torch.Tensor | None:
    """The output `[n, b, width]`, after W_O, of a call that `attend` sees; None to leave it to torch.

    `call` has query `[n, b, width]`, key and value `[m, b, width]`, without b for one text; no added keys, no dropout.
    """
    is_batch, h = call["query"].ndim == 3, call["num_heads"]
    query, key, value = (call[name] if is_batch else call[name][:, None] for name in ("query", "key", "value"))
    q, k, v = (_by_head(x, h) for x in _projected(call, query, key, value))
    rule = LayerRule(q.shape[-1] ** -0.5, mask=_mask(call, q, k))
    output = attend.of_products(module, "sdpa", (q, k, v), rule)  # [b, h, n, e]
    if output is None:
        return None
    joined = output.to(q.dtype).permute(2, 0, 1, 3).flatten(2)  # [n, b, h * e]
    out = functional.linear(joined, call["out_proj_weight"], call["out_proj_bias"])
    return out if is_batch else out[:, 0]


def _projected(call: Mapping[str, Any], *inputs: torch.Tensor) -> list[torch.Tensor]:
    if call["use_separate_proj_weight"]:
        weights = [call[f"{name}_proj_weight"] for name in "qkv"]
    else:
        weights = list(call["in_proj_weight"].chunk(3))
    biases = [None] * 3 if call["in_proj_bias"] is None else list(call["in_proj_bias"].chunk(3))
    return [functional.linear(x, weight, bias) for x, weight, bias in zip(inputs, weights, biases, strict=True)]


def _by_head(x: torch.Tensor, h: int) -> torch.Tensor:
    n, b, width = x.shape
    return x.reshape(n, b, h, width // h).permute(1, 2, 0, 3)


def _mask(call: Mapping[str, Any], q: torch.Tensor, k: torch.Tensor) -> torch.Tensor | LazyMask | None:
    """The mask `[b or 1, h or 1, n or 1, m]` of a call, in which torch marks what is masked; None without one."""
    (b, h, n, _), m = q.shape, k.shape[2]
    mask, padding = call["attn_mask"], call["key_padding_mask"]
    if mask is not None:
        if mask.ndim == 2 and padding is None and n == m and _is_causal(mask):
            return causal_mask(q, k)
        mask = _additive(mask, q.dtype).reshape(*((b, h) if mask.ndim == 3 else (1, 1)), n, m)
    if padding is not None:
        of_keys = _additive(padding, q.dtype).reshape(b, 1, 1, m)
        mask = of_keys if mask is None else mask + of_keys
    return mask


def _is_causal(mask: torch.Tensor) -> bool:
    is_masked = mask if mask.dtype == torch.bool else mask == -torch.inf
    if not torch.equal(is_masked, torch.ones_like(is_masked).triu(1)):
        return False
    return mask.dtype == torch.bool or not bool(mask.tril().nan_to_num(neginf=0.0).any())


def _additive(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -torch.inf)
