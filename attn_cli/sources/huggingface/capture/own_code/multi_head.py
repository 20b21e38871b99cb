"""A call of torch's multi-head attention that needs no weights, as an attention call of queries, keys and values."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from attn_cli.sources.huggingface.capture.attend import Attend
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask
from attn_cli.sources.huggingface.capture.own_code.sdpa import causal_mask

_OTHER = ("bias_k", "bias_v", "static_k", "static_v")  # arguments that put further keys beside those of the tokens


def is_plain(call: Mapping[str, Any]) -> bool:
    """True for a call of torch's multi-head attention whose keys are its tokens' alone, and that returns no weights."""
    if call["query"].shape[-1] != call["embed_dim_to_check"]:
        return False
    others = any(call[name] is not None for name in _OTHER) or call["add_zero_attn"]
    return not others and not call["need_weights"] and not (call["training"] and call["dropout_p"])


@torch.no_grad()
def multi_head_output(attend: Attend, module: nn.Module, call: Mapping[str, Any]) -> torch.Tensor | None:
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
