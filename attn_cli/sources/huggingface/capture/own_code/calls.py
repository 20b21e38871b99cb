"""Attention captured in a model's own code, outside transformers' registry, reshaped for the visitor."""

from typing import Any, Protocol

import torch
from torch import nn

from attn_cli.sources.huggingface.anatomy.head_counts import groups_of, heads_of
from attn_cli.sources.huggingface.capture.attention_function import Tap
from attn_cli.sources.huggingface.capture.batch_visitor import BatchVisitor
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule
from attn_cli.sources.huggingface.capture.lazy_mask import LazyMask, lazy_mask
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.own_code.seen_call import mask_lowest
from attn_cli.sources.huggingface.capture.own_code.softmax_layouts import as_matrices
from attn_cli.sources.huggingface.compat import causal_mask_function


class OwnCodeVisitor(Protocol):
    """A receiver of the attention of a model's own code, and the ledger in which it records every call."""

    ledger: Ledger

    def visit_softmax(self, module: nn.Module, way: str, weights: torch.Tensor, scores: torch.Tensor | None) -> None:
        """Take in a softmax: the weights in the layout of the module that made them, and the scores if captured."""

    def visit_sdpa(self, module: nn.Module, arguments: dict[str, Any]) -> torch.Tensor | None:
        """Take in a call of torch's SDPA; an output in place of the call's, or None to leave it alone."""


class OwnCode:
    """Passes the softmaxes and SDPA calls of a model's own code to a visitor."""

    def __init__(self, ledger: Ledger, visitor: BatchVisitor, tap: Tap | None = None) -> None:
        self.ledger, self.visitor, self.tap = ledger, visitor, tap

    @torch.no_grad()
    def visit_softmax(self, module: nn.Module, way: str, weights: torch.Tensor, scores: torch.Tensor | None) -> None:
        """Visit weights in the layout of the module that made them, and their scores where those were captured.

        way  how they were captured, one of the values of `Place.way`

        Raises LoadError for rows that can't be attention.
        """
        place, is_selected = self.ledger.record(module, way)
        if not is_selected:
            return
        b, n = self.ledger.labels.size, self.ledger.labels.length
        weights = as_matrices(weights.detach().float(), module, b, n, 0.0)  # [b, h, n, m]
        if scores is not None:
            lowest = torch.finfo(torch.float32).min
            scores = as_matrices(scores.detach().float().clamp(min=lowest), module, b, n, lowest)
            weights, scores = mask_lowest(weights, scores)
        self.visitor.visit_weights(place, groups_of(module, weights.shape[1]), weights, scores)

    @torch.no_grad()
    def visit_sdpa(self, module: nn.Module, arguments: dict[str, Any]) -> torch.Tensor | None:
        """Visit a call of torch's SDPA, given by argument names; its output if it was computed here."""
        query, key, value = (arguments[name] for name in ("query", "key", "value"))
        mask = arguments.get("attn_mask")
        place, is_selected = self.ledger.record(module, "sdpa")
        if not is_selected or query.ndim < 3:
            return None
        h = (heads_of(module) or 1) if query.ndim == 3 else query.shape[-3]
        q, k, v = (_with_four_axes(x, h if query.ndim == 3 else x.shape[-3]) for x in (query, key, value))
        if mask is not None and not isinstance(mask, LazyMask):
            mask = _with_four_axes(mask.expand(*query.shape[:-1], key.shape[-2]), h) if mask.ndim != 4 else mask
            mask = mask.expand(*mask.shape[:2], q.shape[2], k.shape[2])  # [b, h, n, m]
        elif arguments.get("is_causal"):
            mask = _causal(q, k)
        scale = arguments.get("scale")
        scale = float(scale) if scale is not None else query.shape[-1] ** -0.5
        layer_rule = LayerRule(scale, mask=mask)
        output = self.visitor.visit_products(place, q, k, v, layer_rule)  # [b, h, n, e]
        if self.tap is not None:
            output = layer_rule.output(q, k, v) if output is None else output
            output = self.tap(module, place, output.transpose(1, 2)).transpose(1, 2)
        return None if output is None else output.to(query.dtype).reshape(*query.shape[:-1], value.shape[-1])


def _causal(q: torch.Tensor, k: torch.Tensor) -> LazyMask:
    """The mask `[b, 1, n, m]` that `is_causal` stands for: query i may attend to keys 0 .. i."""
    return lazy_mask(
        batch_size=q.shape[0],
        q_length=q.shape[2],
        kv_length=k.shape[2],
        mask_function=causal_mask_function,
        device=q.device,
    )


def _with_four_axes(x: torch.Tensor, h: int) -> torch.Tensor:
    """`[..., h, n, d]`, or `[b * h, n, d]`, as `[b, h, n, d]`."""
    if x.ndim == 3:
        return x.reshape(-1, h if x.shape[0] % h == 0 else 1, *x.shape[1:])
    return x.flatten(0, x.ndim - 4) if x.ndim > 4 else x
