"""One attention call of a layer: its queries, keys and values, and the rule that makes weights of their scores."""

from dataclasses import dataclass

import torch

Products = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Queries `[b, h, n, d]`, keys `[b, g, m, d]` and values `[b, g, m, e]` of one attention call."""


@dataclass(frozen=True, eq=False)
class LayerRule:
    """The rule by which one layer turns scores into weights, for a batch of b texts.

    scale    the factor on q kᵀ
    softcap  c in c * tanh(scores / c); None for no cap
    bias     `[b or 1, h or 1, n or 1, m]`, added to the scores; None for none
    sink     one learned score per head `[h]` in float32, which takes a part of each row's sum; None for none
    mask     `[b or 1, h or 1, n or 1, m]`: booleans, numbers to add, or a `LazyMask`; None for none
    sink_per_query  a learned score for every query `[b, h, n, 1]`, in place of one per head
    """

    scale: float
    softcap: float | None = None
    bias: torch.Tensor | None = None
    sink: torch.Tensor | None = None
    mask: torch.Tensor | None = None
    sink_per_query: torch.Tensor | None = None
