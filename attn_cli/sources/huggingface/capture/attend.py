"""Who takes in the attention calls of a pass: all come to one, by the registry or from the model's own code."""

from typing import Protocol

import torch
from torch import nn

from attn_cli.sources.huggingface.capture.batch_visitor import BatchVisitor
from attn_cli.sources.huggingface.capture.layer_rule import LayerRule, Products
from attn_cli.sources.huggingface.capture.ledger import Ledger


class Attend(Protocol):
    """Gets every attention call of a pass, and may compute its output; `visitor` (or None) sees selected calls."""

    ledger: Ledger
    visitor: BatchVisitor | None

    def of_products(self, module: nn.Module, way: str, qkv: Products, rule: LayerRule) -> torch.Tensor | None:
        """Get the q, k and v of a call, and its rule; returns its output `[b, h, n, e]`."""

    def of_softmax(
        self,
        module: nn.Module,
        way: str,
        weights: torch.Tensor,
        scores: torch.Tensor | None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Get weights of the model's own code, in its layout, and scores or None; `dtype` is their roundest type."""
