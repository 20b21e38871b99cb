"""A softmax in a module of another library, which is attention if its result is multiplied with values."""

from typing import Any, NamedTuple

import torch
from torch import nn


class PossibleWeights(NamedTuple):
    """The result of a softmax over the last axis, which is attention if it is then multiplied with values.

    weights     the result, and what the module's code makes of it; `scores` what the softmax was given,
                None where more than single cells changed since
    factor      the same, after a dropout if there is one
    dtype       the roundest type that the weights were in
    origin      the number of the softmax in its pass
    owner       the module whose code computed it; where that is an nn.Softmax, the module around it
    given       the shape of the first float input of the owner; None if unknown
    of_product  whether the owner had multiplied matrices before, as queries and keys are
    """

    weights: torch.Tensor
    scores: torch.Tensor | None
    owner: nn.Module
    given: torch.Size | None
    of_product: bool
    factor: torch.Tensor
    dtype: torch.dtype
    origin: int = 0

    def is_in(self, args: tuple[Any, ...]) -> bool:
        """True if the weights, or a view of them, are among the arguments of a product."""
        return _is_in(self.factor, args)

    def as_factor(self, args: tuple[Any, ...]) -> "PossibleWeights":
        """These weights in the layout of the factor `args` that they are, where the softmax's is lost."""
        if self.scores is not None or self.weights is not self.factor:
            return self
        return self._replace(weights=next(x for x in args if isinstance(x, torch.Tensor) and _is_in(self.factor, (x,))))

    @property
    def is_over_channels(self) -> bool:
        """True for weights `[b, h, n, n]` between the n channels of each head, which stand where tokens would."""
        *_, n, m = self.weights.shape
        if self.given is None or len(self.given) < 3 or n != m:
            return False
        tokens, width = (
            (self.given[1], self.given[2]) if len(self.given) == 3 else (self.given[2:].numel(), self.given[1])
        )
        return n != tokens and self.weights.ndim == 4 and self.weights.shape[1] * n == width


class PossibleSoftmaxes:
    """The softmaxes of a pass of which it isn't known yet whether they are attention, in the order of computing.

    waiting  those whose results nothing has multiplied yet
    """

    def __init__(self) -> None:
        self.waiting: list[PossibleWeights] = []
        self._count = 0
        self._summed: list[tuple[PossibleWeights, torch.Tensor]] = []

    def add(self, possible: PossibleWeights) -> None:
        """Keep a softmax until its result is multiplied, or the modules around it have run."""
        self._count += 1
        self.waiting.append(possible._replace(origin=self._count))

    def follow(
        self, args: tuple[Any, ...], result: Any, *, is_dropped: bool = False, by_cell: bool = True
    ) -> list[nn.Module]:
        """Keep what a function makes of kept weights, too, if of their size; the modules whose weights these are."""
        taken = [x for x in self.waiting if x.is_in(args)]
        for x in taken:
            is_alike = isinstance(result, torch.Tensor) and result.is_floating_point()
            is_of_cells = by_cell and is_alike and len({other.origin for other in taken}) == 1
            is_alike = is_alike and result.ndim == x.weights.ndim and result.numel() == x.weights.numel()
            if is_alike and not x.is_in((result,)):
                dtype = max(x.dtype, result.dtype, key=lambda dtype: torch.finfo(dtype).eps)
                scores = x.scores if is_of_cells else None
                weights = x.weights if is_dropped else result
                made = x._replace(factor=result, weights=weights, dtype=dtype, scores=scores)
                self.waiting.append(made)
        return [x.owner for x in taken]

    def taken_by(self, args: tuple[Any, ...]) -> list[PossibleWeights]:
        """The kept softmaxes whose results are among the factors `args` of a product, one for each; removed."""
        multiplied = {x.origin: x.as_factor(args) for x in self.waiting if x.is_in(args)}
        if multiplied:
            self.waiting = [x for x in self.waiting if x.origin not in multiplied]
        return list({_memory(x.factor): x for x in multiplied.values()}.values())

    def summed(self, possible: PossibleWeights, result: torch.Tensor) -> None:
        """Keep a softmax with `result`, its product with values; what that is multiplied by decides."""
        self._summed.append((possible, result))

    def factors_in(self, args: tuple[Any, ...]) -> int:
        """How many kept softmaxes are no attention, since their product with values is multiplied here, by queries."""
        if not self._summed or any(isinstance(x, nn.Parameter) for x in args):
            return 0
        left = [x for x in self._summed if not _is_in(x[1], args)]
        count, self._summed = len(self._summed) - len(left), left
        return count

    def sums_inside(self, module: nn.Module) -> list[PossibleWeights]:
        """The softmaxes in a module or its parts whose product with values was not multiplied again: attention."""
        if not self._summed:
            return []
        parts = set(module.modules())
        inside = [possible for possible, _ in self._summed if possible.owner in parts]
        self._summed = [x for x in self._summed if x[0].owner not in parts]
        return inside

    def inside(self, module: nn.Module) -> list[PossibleWeights]:
        """The softmaxes computed in a module or its parts whose result nothing has multiplied yet; they are removed."""
        if not self.waiting:
            return []
        parts = set(module.modules())
        inside = {x.origin: x for x in self.waiting if x.owner in parts}
        self.waiting = [x for x in self.waiting if x.owner not in parts]
        return list(inside.values())

    def clear(self) -> None:
        """Forget all kept softmaxes, after a pass that broke off."""
        self.waiting.clear()
        self._summed.clear()


def _is_in(x: torch.Tensor, args: tuple[Any, ...]) -> bool:
    memory = _memory(x)
    return memory != 0 and any(isinstance(other, torch.Tensor) and _memory(other) == memory for other in args)


def _memory(x: torch.Tensor) -> int:
    try:
        return x.untyped_storage().data_ptr()
    except NotImplementedError:  # of a batch within vmap
        return 0
