"""The function that transformers calls for every layer while a capture is open."""

from typing import Any

import torch
from torch import nn

from attn_cli.sources.huggingface.capture.attend import Attend, Products
from attn_cli.sources.huggingface.capture.registry_rule import rule_of_layer
from attn_cli.sources.huggingface.capture.row_of_texts import RowOfTexts
from attn_cli.sources.huggingface.capture.text_rule import LayerRule
from attn_cli.sources.huggingface.compat import hidden_from_function_modes


class AttentionFunction:
    """Hands the layers whose attention transformers looks up in its registry to `attend`.

    row_of_texts  the texts of the pass, where they are in one row of tokens
    """

    def __init__(self, attend: Attend, row_of_texts: RowOfTexts | None = None) -> None:
        self.attend, self.row_of_texts = attend, row_of_texts

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
        texts, qkv = self.row_of_texts, (query, key, value)
        mask = attention_mask if texts is None else texts.mask(attention_mask)
        rule, sink_per_query = rule_of_layer(module, query, key, mask, scaling, options)
        if texts is not None:
            texts.check(query, key, rule.bias if sink_per_query is None else sink_per_query)
        # This softmax or SDPA is attn's, not the model's, so it is hidden from the function mode.
        with torch.no_grad(), hidden_from_function_modes():
            output = self.attend.of_products(module, "registry", qkv, rule, sink_per_query)
            if output is None:
                output = self._output(rule, qkv)
        return output.to(query.dtype).transpose(1, 2).contiguous(), None

    def _output(self, rule: LayerRule, qkv: Products) -> torch.Tensor:
        """The output alone `[b, h, n, e]`."""
        texts = self.row_of_texts
        if texts is None:
            return rule.output(*qkv)
        return texts.without_padding(rule.output(*(texts.with_padding(x) for x in qkv)))
