"""Weights of a model's own code as `[b, h, n, m]`: their rule, their masked cells, and what can't be weights."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import nn

from attn_cli.call import Place
from attn_cli.errors import LoadError
from attn_cli.kernel.definition.mask import Mask, causal
from attn_cli.kernel.definition.rule import UnknownRule
from attn_cli.sources.huggingface.anatomy.configuration import heads_of

TOLERANCE = 1e-3  # of cells and sums of rows, of weights in float32 and float16
_MOST_SCALED = 32  # the root of a head's size, about, by which scores are divided after they are masked


_LESS = "some rows sum to less than 1, as the model's own code makes them"
_OTHER = "some cells are below 0 or rows sum to more than 1, as the model's own code makes them"


class SeenWeights(NamedTuple):
    """Weights that code other than attn's computed, the scores of their softmax if captured, and the roundest dtype."""

    weights: torch.Tensor
    scores: torch.Tensor | None
    dtype: torch.dtype


def rule_of(weights: torch.Tensor) -> UnknownRule:
    """What weights `[h, n, m]` show: causal if no query attends to a later key; a softmax if none is below 0."""
    n, m = weights.shape[1:]
    is_causal = n == m > 1 and not bool(weights.triu(1).any())
    return UnknownRule(mask=causal() if is_causal else Mask(), softmax=not bool((weights < 0).any()))


def checked(weights: torch.Tensor, place: Place, dtype: torch.dtype) -> Place:
    """The place of weights `[h, n, m]`, noted for rows below 1; LoadError for returned ones that are no weights."""
    tolerance = max(TOLERANCE, torch.finfo(dtype).eps)
    low, high, sums = float(weights.min()), float(weights.max()), weights.sum(-1)
    least, most = float(sums.min()), float(sums.max())
    if low < -tolerance or high > 1 + tolerance or most > 1 + tolerance:
        if place.way == "softmax":
            return replace(place, note=place.note or _OTHER)
        raise LoadError(
            f"layer {place.layer} ({place.name}): what its {place.way} gave is not attention "
            f"(cells {low:.3g} to {high:.3g}, row sums up to {most:.5g})",
            "please report the model's type",
        )
    is_whole = least >= 1 - tolerance or place.way == "registry"  # there a learned sink takes the rest
    return place if is_whole or place.note else replace(place, note=_LESS)


def mask_lowest(weights: torch.Tensor, scores: torch.Tensor, *, is_float16: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Mask the (query, key) that a model masked by the lowest float of its type: weight 0 and score -inf there."""
    lowest = torch.finfo(torch.float16 if is_float16 else torch.float32).min
    is_masked = (scores <= lowest / 2) | ((weights == 0) & (scores <= lowest / _MOST_SCALED))
    return weights.masked_fill(is_masked, 0.0), scores.masked_fill(is_masked, -torch.inf)


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


def texts_in(given: torch.Size | None, rows: int, otherwise: int) -> int:
    """How many texts a module is given, as `[b, n, d]` or `[n, b, d]` where it has n `rows`."""
    if given is None or len(given) != 3 or rows not in given[:2]:
        return otherwise
    return given[0] if given[1] == rows else given[1]


def are_heads_first(x: torch.Tensor, texts: int, module: nn.Module) -> bool:
    """True for `[h, b, n, ...]`, whose second axis counts the texts; LoadError where the first may count them, too."""
    if x.ndim != 4 or x.shape[1] != texts or x.shape[0] == texts:
        return False
    heads = heads_of(module)
    if heads is None and texts > 1 and x.shape[0] % texts == 0:
        line = f"{type(module).__name__} attends in {list(x.shape)} to {texts} texts: either axis may be that of heads"
        raise LoadError(line, "give the module an attribute num_heads, or read text by text")
    return heads in (None, x.shape[0])
