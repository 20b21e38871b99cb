"""Converts the layouts of softmaxes in models' own code to `[b, h, n, m]`."""

import math
from collections.abc import Sequence

import torch
from torch import nn

from attn_cli.sources.huggingface.anatomy.head_counts import heads_of


def heads_in(count: int, module: nn.Module, texts: int) -> int:
    """How many heads each text has on an axis that it shares with them; 1 where neither divides it."""
    h = heads_of(module)
    if h and count % (h * texts) == 0:
        return h
    return count // texts if count % texts == 0 else h if h and count % h == 0 else 1


def as_matrices(x: torch.Tensor, module: nn.Module, texts: int) -> torch.Tensor:
    """Weights or scores that `module` computed as `[b, h, n, m]`; b is a multiple of the number of `texts`."""
    h = heads_of(module)
    if x.ndim == 3:  # batch and heads in one axis
        return x.reshape(-1, heads_in(x.shape[0], module, texts), *x.shape[1:])
    axes = range(1, x.ndim - 2)
    axis = next((axis for axis in (x.ndim - 3, *axes) if x.shape[axis] == h), x.ndim - 3)
    x = x.movedim(axis, -3)
    return x.flatten(0, x.ndim - 4) if x.ndim > 4 else x


def are_heads_first(
    x: torch.Tensor, values: torch.Tensor, projected: Sequence[torch.Tensor], texts: int, heads: int | None
) -> bool | None:
    """True for `x` `[..., n, m]`, of values `[..., m, e]`, whose first axes are heads before texts; None if unknown."""
    first, count = x.shape[:-2], math.prod(x.shape[:-2])
    if texts == 1:
        return len(first) == 2 and first[1] == 1 < first[0] and heads != 1
    if (
        count <= texts
        or count % texts
        or count != math.prod(values.shape[:-2])
        or len(first) > 2
        or (len(first) == 2 and first[1] != texts)
    ):
        return False
    second = values.reshape(-1, *values.shape[-2:])[1]
    for made in reversed(projected):
        of_texts = made.reshape(texts, -1) if len(made) % texts == 0 else made.new_zeros((2, 1))
        is_of_text = [bool(torch.isin(second, of_text.to(second)).all()) for of_text in of_texts[:2]]
        if is_of_text[0] != is_of_text[1]:
            return is_of_text[1]
    return None if first[0] != texts else False


def texts_first(x: torch.Tensor, texts: int) -> torch.Tensor:
    """An array of the heads of all texts, head by head, `[h * b, ...]` or `[h, b, ...]`, as `[b, h, n, m]`."""
    return x.reshape(-1, texts, *x.shape[-2:]).transpose(0, 1)
