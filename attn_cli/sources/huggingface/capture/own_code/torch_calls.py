"""Calls of torch's SDPA in a model's own code, as attention calls."""

from typing import Any

import torch
from torch import nn

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
