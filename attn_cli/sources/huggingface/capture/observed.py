"""The attention calls of a pass as a capture takes them in: selected ones go to a visitor, none is changed."""

from collections.abc import Callable

import torch
from torch import nn

from attn_cli.call import Place
from attn_cli.sources.huggingface.anatomy.head_counts import groups_of
from attn_cli.sources.huggingface.anatomy.parameters import dtype_of_module
from attn_cli.sources.huggingface.capture.batch_visitor import BatchVisitor, Visit
from attn_cli.sources.huggingface.capture.layer_rule import (
    LayerRule,
    Products,
    output_of_layer,
    output_of_weights,
    with_sink_per_query,
)
from attn_cli.sources.huggingface.capture.ledger import Ledger, LedgerEntry, SelectionDone
from attn_cli.sources.huggingface.capture.own_code.seen_weights import mask_lowest
from attn_cli.sources.huggingface.capture.own_code.softmax_layouts import as_matrices

Tap = Callable[[nn.Module, Place, torch.Tensor], torch.Tensor]
"""Gets an attention module, its place and output `[b, n, h, e]`; returns the output that the model goes on with."""


class ObservedAttention:
    """Shows the attention calls of a pass to a visitor, and leaves the model's outputs as they are, unless by `tap`."""

    def __init__(self, ledger: Ledger, visit: Visit | None, *, tap: Tap | None = None) -> None:
        self.ledger, self.tap = ledger, tap
        self.visitor: BatchVisitor | None = None
        if visit is not None:
            self.visitor = BatchVisitor(visit, ledger)

    def of_products(self, module: nn.Module, way: str, qkv: Products, rule: LayerRule) -> torch.Tensor | None:
        """The output `[b, h, n, e]` of a call, if showing it to the visitor computed it or `tap` changes it."""
        recorded = self.ledger.record(module, way)
        output = self._shown(recorded, qkv, rule)
        if recorded.is_last:
            raise SelectionDone
        if self.tap is None:
            return output
        output = output_of_layer(rule, *qkv) if output is None else output
        by_token = output.to(qkv[0].dtype).transpose(1, 2).contiguous()  # [b, n, h, e]
        return self.tap(module, recorded.place, by_token).transpose(1, 2)

    def _shown(self, recorded: LedgerEntry, qkv: Products, rule: LayerRule) -> torch.Tensor | None:
        if self.visitor is None or not recorded.is_selected:
            return None
        if rule.sink_per_query is None:
            return self.visitor.visit_products(recorded, *qkv, rule)
        query, _, value = qkv
        weights, scores = with_sink_per_query(rule, *qkv)
        shared = query.shape[1] // value.shape[1]  # query heads that read one value head
        self.visitor.visit_weights(
            recorded, [head // shared for head in range(query.shape[1])], weights, scores, query.dtype
        )
        return output_of_weights(weights, value)

    @torch.no_grad()
    def of_softmax(
        self,
        module: nn.Module,
        way: str,
        weights: torch.Tensor,
        scores: torch.Tensor | None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Show the weights of a selected layer as `[b, h, n, m]`, and their scores if captured."""
        recorded = self.ledger.record(module, way)
        self._show_weights(recorded, module, weights, scores, dtype)
        if recorded.is_selected and recorded.is_last:
            raise SelectionDone

    def _show_weights(
        self,
        recorded: LedgerEntry,
        module: nn.Module,
        weights: torch.Tensor,
        scores: torch.Tensor | None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if self.visitor is None or not recorded.is_selected:
            return
        texts = self.ledger.labels.size
        dtype = dtype or weights.dtype
        weights = as_matrices(weights.detach().float(), module, texts)  # [b, h, n, m]
        if scores is not None:
            lowest = torch.finfo(torch.float32).min
            is_float16 = torch.float16 in (scores.dtype, dtype_of_module(module))
            scores = as_matrices(scores.detach().float().clamp(min=lowest), module, texts)
            weights, scores = mask_lowest(weights, scores, is_float16=is_float16)
        self.visitor.visit_weights(recorded, groups_of(module, weights.shape[1]), weights, scores, dtype)
