"""Rotary angles that depend on how long a text is: dynamic scaling, and two sets of factors (longrope)."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


def by_length(model: nn.Module) -> Iterator[tuple[str, nn.Module, dict[str, Any]]]:
    """The rotary modules of a model whose angles depend on the length: their type, and how they are called."""
    for module in model.modules():
        types = getattr(module, "rope_type", None)
        for layer, kind in types.items() if isinstance(types, dict) else [(None, types)]:
            if isinstance(kind, str) and ("dynamic" in kind or kind == "longrope"):
                yield kind, module, {} if layer is None else {"layer_type": layer}


def forget_length(model: nn.Module) -> None:
    """Undo what a longer text has left in a model's rotary modules, as in a model that was just loaded."""
    for _, module, how in by_length(model):
        _cosines(module, 1, how)


def type_that_changes(model: nn.Module, fewer: int, more: int) -> str:
    """The type of rotary positions that turns the same tokens otherwise in a longer text; "" where none does."""
    for kind, module, how in by_length(model):
        before, after = _cosines(module, fewer, how), _cosines(module, more, how)
        _cosines(module, 1, how)
        if not torch.equal(before, after[:, :fewer]):
            return kind
    return ""


@torch.no_grad()
def _cosines(module: nn.Module, tokens: int, how: dict[str, Any]) -> torch.Tensor:
    device = next(module.buffers()).device
    cosines: torch.Tensor = module(torch.zeros(1, device=device), torch.arange(tokens, device=device)[None], **how)[0]
    return cosines
