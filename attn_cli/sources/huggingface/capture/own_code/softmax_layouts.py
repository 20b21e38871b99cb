"""Converts the layouts of softmaxes in models' own code to `[b, h, n, m]`, with every key in its true column."""

import math
from collections.abc import Sequence

import torch
from torch import nn

from attn_cli.sources.huggingface.anatomy.head_counts import heads_of


def has_token_columns(x: torch.Tensor, module: nn.Module) -> bool:
    """False for Longformer's softmax over some tokens, seen by all, and a window of others."""
    window = getattr(module, "one_sided_attn_window_size", 0)
    return not window or x.shape[-1] == 2 * window + 1


def heads_in(count: int, module: nn.Module, texts: int) -> int:
    """How many heads each text has on an axis that it shares with them; 1 where neither divides it."""
    h = heads_of(module)
    if h and count % (h * texts) == 0:
        return h
    return count // texts if count % texts == 0 else h if h and count % h == 0 else 1


def as_matrices(
    x: torch.Tensor, module: nn.Module, way: str, texts: int, tokens: int | None, fill: float
) -> torch.Tensor:
    """Weights or scores that `module` computed as `[b, h, n, m]`; b is a multiple of the number of `texts`."""
    h = heads_of(module)
    if way == "returned" and x.ndim == 4:  # of the tokens, and of the padding to whole blocks that the model adds
        return x[..., :tokens, :tokens]
    if window := getattr(module, "one_sided_attn_window_size", 0):
        return _from_band(x, window, tokens, fill)
    if (block := getattr(module, "block_len", 0)) and tokens is not None and x.ndim == 5 and x.shape[-2] == block:
        return _from_blocks(x, tokens, fill)
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


def _from_band(x: torch.Tensor, window: int, tokens: int | None, fill: float) -> torch.Tensor:
    """Longformer's `[b, n, h, window + 1 + window]`, column c of row i for key i - window + c, as `[b, h, n, n]`."""
    x = x.transpose(1, 2)  # [b, h, n, window + 1 + window]
    b, h, n, width = x.shape
    cells = x.new_full((b, h, n, n + 2 * window), fill)
    columns = torch.arange(n, device=x.device)[:, None] + torch.arange(width, device=x.device)
    cells.scatter_(3, columns.expand(b, h, n, width), x)
    real = n if tokens is None else min(tokens, n)
    return cells[:, :, :real, window : window + real]


def with_global_tokens(
    local: torch.Tensor, of_global: torch.Tensor, is_global: torch.Tensor, fill: float
) -> torch.Tensor:
    """Longformer's two softmaxes as `[b, h, n, n]`.

    local      each token's, over g global tokens and a window `[b, n, h, g + window + 1 + window]`
    of_global  the global tokens' own `[b * h, g, n]`
    is_global  which tokens of each text are global `[b, n]`
    """
    (b, n, h, _), g = local.shape, of_global.shape[1]
    band = local[..., g:]
    cells = _from_band(band, band.shape[-1] // 2, None, fill)
    of_global = of_global.view(b, h, g, n)
    for text, chosen in enumerate(is_global):
        places = chosen.nonzero()[:, 0]
        cells[text][:, :, places] = local[text, :, :, : len(places)].transpose(0, 1)
        cells[text][:, places] = of_global[text, :, : len(places)].to(cells.dtype)
    return cells


def _from_blocks(x: torch.Tensor, tokens: int, fill: float) -> torch.Tensor:
    """LongT5's blocks `[b, blocks, h, l, 3 * l + g]` as `[b, h, tokens, tokens + g]`."""
    x = x.transpose(1, 2)  # [b, h, blocks, l, 3 * l + g]
    b, h, blocks, rows, _ = x.shape
    local, summaries = x[..., : 3 * rows], x[..., 3 * rows :]
    cells = x.new_full((b, h, blocks, rows, (blocks + 2) * rows), fill)
    columns = rows * torch.arange(blocks, device=x.device)[:, None, None] + torch.arange(3 * rows, device=x.device)
    cells.scatter_(4, columns.expand(local.shape), local)
    own = cells.flatten(2, 3)[:, :, :tokens, rows : rows + tokens]  # [b, h, tokens, tokens]
    return torch.cat([own, summaries.flatten(2, 3)[:, :, :tokens]], dim=-1)
