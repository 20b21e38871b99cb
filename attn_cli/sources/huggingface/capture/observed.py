"""The attention calls of a pass as a capture takes them in: selected ones go to a visitor, none is changed."""

from collections.abc import Callable

import torch
from torch import nn

from attn_cli.call import Place
from attn_cli.sources.huggingface.anatomy.head_counts import groups_of
from attn_cli.sources.huggingface.capture.attend import LayerRule, Products
from attn_cli.sources.huggingface.capture.batch_visitor import BatchVisitor
from attn_cli.sources.huggingface.capture.layer_output import output_of_layer, output_of_weights, with_sink_per_query
from attn_cli.sources.huggingface.capture.ledger import Ledger, LedgerEntry, SelectionDone
from attn_cli.sources.huggingface.capture.own_code.seen_weights import mask_lowest
from attn_cli.sources.huggingface.capture.own_code.softmax_layouts import as_matrices

Tap = Callable[[nn.Module, Place, torch.Tensor], torch.Tensor]
"""Gets an attention module, its place and output `[b, n, h, e]`; returns the output that the model goes on with."""


class ObservedAttention:
    """Shows selected attention calls to a visitor; every layer's output goes through the function `tap`, if any."""

    def __init__(self, ledger: Ledger, visitor: BatchVisitor, tap: Tap | None = None) -> None:
        self.ledger, self.visitor, self.tap = ledger, visitor, tap

    def of_products(self, module: nn.Module, way: str, qkv: Products, rule: LayerRule) -> torch.Tensor | None:
        """The output `[b, h, n, e]` where showing the call computed it, or `tap` takes it; else None: the caller does.

        Raises SelectionDone where the pass ends here.
        """
        recorded, output = self.ledger.record(module, way), None
        if rule.sink_per_query is not None:
            output = self._with_sink_per_query(recorded, qkv, rule)
        elif recorded.is_selected:
            output = self.visitor.visit_products(recorded, *qkv, rule)
        if recorded.is_last:
            raise SelectionDone
        if self.tap is None:
            return output
        output = output_of_layer(rule, *qkv) if output is None else output
        by_token = output.to(qkv[0].dtype).transpose(1, 2).contiguous()  # [b, n, h, e]
        return self.tap(module, recorded.place, by_token).transpose(1, 2)

    def _with_sink_per_query(self, recorded: LedgerEntry, qkv: Products, rule: LayerRule) -> torch.Tensor:
        """The output of a call with a sink for every query, whose weights are held whole."""
        query, _, value = qkv
        weights, scores = with_sink_per_query(rule, *qkv)
        shared = query.shape[1] // value.shape[1]  # query heads that read one value head
        if recorded.is_selected:
            self.visitor.visit_weights(recorded, [head // shared for head in range(query.shape[1])], weights, scores)
        return output_of_weights(weights, value)

    @torch.no_grad()
    def of_softmax(self, module: nn.Module, way: str, weights: torch.Tensor, scores: torch.Tensor | None) -> None:
        """Pass the weights of a selected layer to the visitor as `[b, h, n, m]`, and their scores if any were captured.

        way     how they were captured: "softmax", "dispatch", "flex" or "returned", as `Place.way` says
        scores  before the softmax, in the layout of the weights, which is the module's own; None where unknown

        Raises LoadError for rows that can't be attention, SelectionDone where the pass ends here.
        """
        recorded = self.ledger.record(module, way)
        if not recorded.is_selected:
            return
        b, n = self.ledger.labels.size, self.ledger.labels.length
        weights = as_matrices(weights.detach().float(), module, b, n, 0.0)  # [b, h, n, m]
        if scores is not None:
            lowest = torch.finfo(torch.float32).min
            scores = as_matrices(scores.detach().float().clamp(min=lowest), module, b, n, lowest)
            weights, scores = mask_lowest(weights, scores)
        self.visitor.visit_weights(recorded, groups_of(module, weights.shape[1]), weights, scores)
        if recorded.is_last:
            raise SelectionDone
