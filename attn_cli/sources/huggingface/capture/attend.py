"""The receiver of every attention call of a model, whether it comes by the registry or from the model's own code."""

from typing import Protocol

import torch
from torch import nn

from attn_cli.sources.huggingface.capture.ledger import Ledger
from attn_cli.sources.huggingface.capture.text_rule import LayerRule

Products = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Queries `[b, h, n, d]`, keys `[b, g, m, d]` and values `[b, g, m, e]` of one attention call."""


class Attend(Protocol):
    """Takes in all attention calls of a pass, and computes those that it changes or shows.

    ledger  records every call; `way` is one of the values of `Place.way`
    """

    ledger: Ledger

    def of_products(
        self,
        module: nn.Module,
        way: str,
        qkv: Products,
        rule: LayerRule,
        sink_per_query: torch.Tensor | None = None,
    ) -> torch.Tensor | None:
        """The output `[b, h, n, e]` of a call; None where the caller computes it."""

    def of_softmax(self, module: nn.Module, way: str, weights: torch.Tensor, scores: torch.Tensor | None) -> None:
        """Take in a softmax: the weights in the layout of the module that made them, and the scores if captured."""
