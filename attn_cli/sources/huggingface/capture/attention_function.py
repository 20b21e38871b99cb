"""The function that transformers calls for every layer while a capture is open."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from attn_cli.call import Place
from attn_cli.sources.huggingface.capture.batch_visitor import BatchVisitor
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule, rule_of_layer
from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.compat import hidden_from_function_modes

Tap = Callable[[nn.Module, Place, torch.Tensor], torch.Tensor]
"""Gets an attention module, its place and output `[b, n, h, e]`; returns the output that the model goes on with."""


class AttentionFunction:
    """Computes the layers whose attention transformers looks up in its registry; selected ones go to a visitor."""

    def __init__(self, ledger: Ledger, visitor: BatchVisitor, tap: Tap | None = None) -> None:
        self.ledger, self.visitor, self.tap = ledger, visitor, tap

    def compute(
        self,
        module: nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        scaling: float | None = None,
        **options: Any,
    ) -> tuple[torch.Tensor, None]:
        """One layer, in the registry's signature: query `[b, h, n, d]`, key `[b, g, m, d]`, value `[b, g, m, e]`.

        Returns the output `[b, n, h, e]`, and None for the weights, which are never held whole.
        """
        texts = self.visitor.row_of_texts
        mask = attention_mask if texts is None else texts.mask(attention_mask)
        layer_rule, sink_per_query = rule_of_layer(module, query, key, mask, scaling, options)
        if texts is not None:
            texts.check(query, key, layer_rule.bias if sink_per_query is None else sink_per_query)
        output: torch.Tensor | None = None
        # This softmax or SDPA is attn's, not the model's, so it is hidden from the function mode.
        with torch.no_grad(), hidden_from_function_modes():
            place, is_selected = self.ledger.record(module, "registry")
            if sink_per_query is not None:
                weights, scores = layer_rule.with_sink_per_query(query, key, value, sink_per_query)
                h, g = query.shape[1], value.shape[1]
                if is_selected:
                    self.visitor.visit_weights(place, [head // (h // g) for head in range(h)], weights, scores)
                output = weights @ value.float().repeat_interleave(h // g, dim=1)  # [b, h, n, m] @ [b, h, m, e]
            elif is_selected:
                output = self.visitor.visit_products(place, query, key, value, layer_rule)
            if output is None:
                output = self._output(layer_rule, query, key, value)
        by_token = output.to(query.dtype).transpose(1, 2).contiguous()  # [b, n, h, e]
        return by_token if self.tap is None else self.tap(module, place, by_token), None

    def _output(
        self, layer_rule: LayerRule, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        """The output alone `[b, h, n, e]`."""
        texts = self.visitor.row_of_texts
        if texts is None:
            return layer_rule.output(query, key, value)
        return texts.without_padding(layer_rule.output(*(texts.with_padding(x) for x in (query, key, value))))
