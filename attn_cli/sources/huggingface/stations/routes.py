"""The route of every token to its experts, as routers return it."""

from typing import Any, NamedTuple

import torch


class Route(NamedTuple):
    """The experts of every token.

    scores   the router's scores of all experts `[n, experts]`; None where it doesn't return them
    weights  the weights of the k experts that were chosen `[n, k]`
    chosen   their numbers `[n, k]`
    """

    scores: torch.Tensor | None
    weights: torch.Tensor
    chosen: torch.Tensor


def places_of_route(output: Any) -> tuple[int | None, int, int] | None:
    """The indices of scores (None without), weights and numbers of experts in a router's output; None if it is none."""
    if type(output) is not tuple:
        return None
    tables = {at: x for at, x in enumerate(output) if isinstance(x, torch.Tensor) and x.ndim == 2}
    chosen = next((at for at, x in tables.items() if not x.is_floating_point() and x.dtype != torch.bool), None)
    if chosen is None:
        return None
    floats = {at: x for at, x in tables.items() if x.is_floating_point()}
    weights = next((at for at, x in floats.items() if x.shape == tables[chosen].shape), None)
    scores = next((at for at, x in floats.items() if at != weights and x.shape[-1] > tables[chosen].shape[-1]), None)
    return None if weights is None else (scores, weights, chosen)
