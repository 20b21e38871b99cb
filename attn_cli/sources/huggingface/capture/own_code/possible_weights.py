"""A softmax in a module of another library, which is attention if its result is multiplied with values."""

from typing import Any, NamedTuple

import torch
from torch import nn


class PossibleWeights(NamedTuple):
    """The result of a softmax over the last axis, which is attention if it is then multiplied with values.

    weights     the result, `scores` what the softmax was given
    owner       the module that it belongs to
    given       the shape of what this module was called with; None if unknown
    of_product  whether this module had multiplied matrices before: queries and keys
    """

    weights: torch.Tensor
    scores: torch.Tensor
    owner: nn.Module
    given: torch.Size | None
    of_product: bool

    def is_in(self, args: tuple[Any, ...]) -> bool:
        """True if the weights, or a view of them, are among the arguments of a product."""
        return _is_in(self.weights, args)

    @property
    def is_over_channels(self) -> bool:
        """True for weights between the channels of each head: as many rows as a head has numbers, not tokens."""
        *_, n, m = self.weights.shape
        if self.given is None or len(self.given) < 3 or n != m:
            return False
        tokens, width = (
            (self.given[1], self.given[2]) if len(self.given) == 3 else (self.given[2:].numel(), self.given[1])
        )
        return n != tokens and self.weights.ndim == 4 and self.weights.shape[1] * n == width


class PossibleSoftmaxes:
    """The softmaxes of a pass that may be attention or not, in the order in which they were computed."""

    def __init__(self) -> None:
        self._waiting: list[PossibleWeights] = []
        self._summed: list[tuple[PossibleWeights, torch.Tensor]] = []

    def add(self, possible: PossibleWeights) -> None:
        """Keep a softmax until its result is multiplied, or the modules around it have run."""
        self._waiting.append(possible)

    def taken_by(self, args: tuple[Any, ...]) -> list[PossibleWeights]:
        """The kept softmaxes whose results are among the factors `args` of a product; they are removed."""
        multiplied = [x for x in self._waiting if x.is_in(args)]
        if multiplied:
            self._waiting = [x for x in self._waiting if not x.is_in(args)]
        return multiplied

    def summed(self, possible: PossibleWeights, result: torch.Tensor) -> None:
        """Keep a softmax whose scores no product made, with its product with values: queries may come only then.

        If they do, as in linear attention, it is no attention.
        """
        self._summed.append((possible, result))

    def factors_in(self, args: tuple[Any, ...]) -> int:
        """How many kept softmaxes turn out as no attention: their product with values is multiplied by queries here.

        So do lambda layers, and linear attention with a softmax of the keys. Parameters among `args` are no queries:
        then 0.
        """
        if not self._summed or any(isinstance(x, nn.Parameter) for x in args):
            return 0
        left = [x for x in self._summed if not _is_in(x[1], args)]
        count, self._summed = len(self._summed) - len(left), left
        return count

    def sums_inside(self, module: nn.Module) -> list[PossibleWeights]:
        """The kept softmaxes of a module's parts whose product with values met no queries; they are removed."""
        if not self._summed:
            return []
        parts = set(module.modules())
        inside = [possible for possible, _ in self._summed if possible.owner in parts]
        self._summed = [x for x in self._summed if x[0].owner not in parts]
        return inside

    def inside(self, module: nn.Module) -> list[PossibleWeights]:
        """The kept softmaxes of a module or its parts that no product has used; they are removed."""
        if not self._waiting:
            return []
        parts = set(module.modules())
        inside = [x for x in self._waiting if x.owner in parts]
        self._waiting = [x for x in self._waiting if x.owner not in parts]
        return inside

    def clear(self) -> None:
        """Forget the softmaxes whose product with values was waited for."""
        self._waiting.clear()
        self._summed.clear()


def _is_in(x: torch.Tensor, args: tuple[Any, ...]) -> bool:
    """True if a tensor, or a view of it, is among some arguments."""
    storage = x.untyped_storage().data_ptr()
    return any(isinstance(other, torch.Tensor) and other.untyped_storage().data_ptr() == storage for other in args)
