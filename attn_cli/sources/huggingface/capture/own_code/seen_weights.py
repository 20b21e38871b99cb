"""Weights of a softmax in a model's own code: the rule that they follow, their masked cells, and what can't be any."""

import torch

from attn_cli.call import Place
from attn_cli.errors import LoadError
from attn_cli.kernel.definition.masks import Causal, Open
from attn_cli.kernel.definition.rule import UnknownRule

TOLERANCE = 1e-3  # tolerance: about the rounding error of a sum of many weights in half precision


def rule_of(weights: torch.Tensor) -> UnknownRule:
    """The mask that weights `[h, n, m]` show: causal if n = m > 1 and no query attends to a later key, else none.

    As an `UnknownRule`: scale, cap and bias are not known from weights.
    """
    n, m = weights.shape[1:]
    causal = n == m > 1 and not bool(weights.triu(1).any())
    return UnknownRule(mask=Causal() if causal else Open())


def mask_lowest(weights: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mask the cells whose score is half the lowest float of its type, or less: weight 0 and score -inf there.

    A fully masked row, to which the softmax gave equal weights, gets weights of 0.
    """
    is_masked = scores <= torch.finfo(scores.dtype).min / 2
    return weights.masked_fill(is_masked, 0.0), scores.masked_fill(is_masked, -torch.inf)


def check_rows(weights: torch.Tensor, place: Place) -> None:
    """Raise LoadError for weights `[h, n, m]` outside [0, 1], or rows that sum to more than 1, each by over 0.001."""
    low, high = float(weights.min()), float(weights.max())
    most = float(weights.sum(-1).max())
    if low < -TOLERANCE or high > 1 + TOLERANCE or most > 1 + TOLERANCE:
        raise LoadError(
            f"layer {place.layer} ({place.name}): what its {place.way} gave is not attention "
            f"(cells {low:.3g} to {high:.3g}, row sums up to {most:.3g})",
            "please report the model's type",
        )
