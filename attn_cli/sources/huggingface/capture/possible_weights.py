"""A softmax in a module of another library, which is attention if its result is multiplied with values."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

# what may be done to each weight between the softmax and the product with values
_CELLS = re.compile(
    r"_*r?mul_*|_*(true)?_?div(ide)?_*|masked_fill|where|clamp|relu|nan_to_num|clone|to|type_as|float|half|bfloat16"
)
_MOVES = frozenset({"reshape", "flatten", "contiguous"})  # which may copy, unlike views


class PossibleWeights(NamedTuple):
    """The result of a softmax over its last axis, which is attention if it is then multiplied with values."""

    weights: torch.Tensor  # what the module's code made of the result
    scores: torch.Tensor | None  # None where more than single cells changed since
    owner: nn.Module  # whose code computed it; where that is an nn.Softmax, the module around it
    given: torch.Size | None  # the shape of the first float input of the owner; None if unknown
    of_product: bool  # whether the owner had multiplied matrices before, as queries and keys are
    factor: torch.Tensor  # the weights after a dropout, if there is one
    dtype: torch.dtype  # the roundest that the weights were in
    origin: int = 0

    def keeps_keys_last(self, part: torch.Tensor) -> bool:
        """True if the last axis of a view or copy of the factor, or of a part of it, is still that of all keys."""
        is_view = _memory(part) == _memory(self.factor)
        return part.shape[-1] == self.factor.shape[-1] and (not is_view or part.stride(-1) == self.factor.stride(-1))

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
    """A pass's softmaxes not yet known to be attention: `waiting` for a product, or `summed`, for the next one."""

    def __init__(self) -> None:
        self.waiting: list[PossibleWeights] = []
        self.summed: list[tuple[PossibleWeights, torch.Tensor]] = []
        self._count = 0

    def add(self, possible: PossibleWeights) -> None:
        """Keep a softmax until its result is multiplied, or the modules around it have run."""
        self._count += 1
        self.waiting.append(possible._replace(origin=self._count))

    def _in(self, args: tuple[Any, ...]) -> dict[int, PossibleWeights]:
        found = {}
        for at, arg in enumerate(args):
            views = [x for x in self.waiting if _is_in(x.factor, (arg,))]
            if views:
                found[at] = next((x for x in reversed(views) if x.factor is arg), views[-1])
        return found

    def follow(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: Any,
        *,
        is_dropped: bool = False,
    ) -> list[nn.Module]:
        """Keep what a function makes of kept weights, too, if of their size; the modules whose weights these are."""
        taken = self._in(args)
        name = getattr(func, "__name__", "")
        is_one = len({x.origin for x in taken.values()}) == 1
        by_cell = is_dropped or (is_one and _CELLS.fullmatch(name) is not None)
        is_number = isinstance(result, torch.Tensor) and result.is_floating_point()
        for at, x in taken.items():
            is_of_size = is_number and result.numel() == x.factor.numel()
            if not is_of_size or any(result is y.factor for y in self.waiting) or not x.keeps_keys_last(result):
                continue
            if name in _MOVES or _is_in(result, (x.factor,)):
                if x.factor is args[at]:
                    moved = (*args[:at], x.weights.contiguous(), *args[at + 1 :])
                    weights = result if x.weights is x.factor else func(*moved, **kwargs)
                    self.waiting.append(x._replace(weights=weights, factor=result, scores=None))
            elif result.ndim == x.factor.ndim:
                dtype = max(x.dtype, result.dtype, key=lambda dtype: torch.finfo(dtype).eps)
                weights, scores = x.weights if is_dropped else result, x.scores if by_cell else None
                self.waiting.append(x._replace(weights=weights, factor=result, dtype=dtype, scores=scores))
        return [x.owner for x in taken.values()]

    def taken_by(self, func: Callable[..., Any], args: tuple[Any, ...], result: torch.Tensor) -> list[PossibleWeights]:
        """The kept softmaxes whose keys a product sums over, removed; by a parameter it is no product with values."""
        taken = self._in(args)
        origins = {x.origin: at for at, x in taken.items()}
        self.waiting = [x for x in self.waiting if x.origin not in origins]
        found = []
        for at in origins.values():
            x, values = taken[at], args[-1] if at == len(args) - 2 else args[-2]
            if result.ndim < 3 or isinstance(values, nn.Parameter):
                self.waiting.append(x)
            elif x.keeps_keys_last(args[at]) and _sums_last_axis(func, args, at):
                found.append(x)
        return found

    def factors_in(self, args: tuple[Any, ...]) -> int:
        """How many kept softmaxes are no attention, since their product with values is multiplied here, by queries."""
        if not self.summed or any(isinstance(x, nn.Parameter) for x in args):
            return 0
        left = [x for x in self.summed if not _is_in(x[1], args)]
        count, self.summed = len(self.summed) - len(left), left
        return count

    def sums_inside(self, module: nn.Module) -> list[PossibleWeights]:
        """The softmaxes in a module or its parts whose product with values was not multiplied again: attention."""
        if not self.summed:
            return []
        parts = set(module.modules())
        inside = [possible for possible, _ in self.summed if possible.owner in parts]
        self.summed = [x for x in self.summed if x[0].owner not in parts]
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
        self.summed.clear()


def _is_in(x: torch.Tensor, args: tuple[Any, ...]) -> bool:
    memory = _memory(x)
    return memory != 0 and any(isinstance(other, torch.Tensor) and _memory(other) == memory for other in args)


def _memory(x: torch.Tensor) -> int:
    try:
        return x.untyped_storage().data_ptr()
    except NotImplementedError:  # of a batch within vmap
        return 0


def _sums_last_axis(func: Callable[..., Any], args: tuple[Any, ...], at: int) -> bool:
    if func is not torch.einsum:
        return at == len(args) - 2
    left, arrow, made = args[0].replace(" ", "").partition("->")
    terms = left.split(",")
    key = terms[at - 1][-1]
    return len(terms) == 2 and key in terms[2 - at] and not (arrow and key in made)
