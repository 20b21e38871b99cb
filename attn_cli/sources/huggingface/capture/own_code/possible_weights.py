"""A softmax in a module of another library, which is attention if its result is multiplied with values."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

# what may be done to each weight between the softmax and the product with values
_CELLS = re.compile(
    r"_*r?mul_*|_*(true)?_?div(ide)?_*|masked_fill|where|clamp|relu|nan_to_num|clone|to|type_as|float|half|bfloat16"
)
_MOVES = frozenset({"reshape", "flatten", "contiguous"})  # which may copy, unlike views


class PossibleWeights(NamedTuple):
    """The result of a softmax, which is attention if it is then multiplied with values.

    weights     what the module's code made of the result; `scores` is None where more than single cells changed since
    keys        the number of each weight's key, of the factor's shape; None where it is lost
    factor      the same, after a dropout if there is one
    dtype       the roundest type that the weights were in
    owner       the module whose code computed it; where that is an nn.Softmax, the module around it
    given       the shape of the first float input of the owner; None if unknown
    of_product  whether the owner had multiplied matrices before, as queries and keys are
    is_mixed    whether a product made it of weights, and kept their keys
    """

    weights: torch.Tensor
    scores: torch.Tensor | None
    keys: torch.Tensor | None
    owner: nn.Module
    given: torch.Size | None
    of_product: bool
    factor: torch.Tensor
    dtype: torch.dtype
    origin: int = 0
    is_mixed: bool = False
    is_log: bool = False

    def of_factor(self, factor: torch.Tensor) -> "PossibleWeights":
        """These weights, in the layout of a part of them or an unknown view where they have lost the softmax's."""
        if self.factor is factor or self.scores is not None or self.weights is not self.factor:
            return self
        return self._replace(weights=factor, factor=factor, keys=None)

    def moved(self, move: Callable[[torch.Tensor], torch.Tensor], factor: torch.Tensor) -> "PossibleWeights":
        """The same weights where their code gives the factor another layout by a function, which moves cells alone."""

        def of(x: torch.Tensor) -> torch.Tensor:
            try:
                return move(x)
            except RuntimeError:  # a view of what isn't contiguous, as the factor is
                return move(x.contiguous())

        scores, keys = (None if x is None else of(x) for x in (self.scores, self.keys))
        weights = factor if self.weights is self.factor else of(self.weights)
        return self._replace(factor=factor, weights=weights, scores=scores, keys=keys)

    @property
    def key_axes(self) -> list[int]:
        """The axes of the factor along which keys change: one, unless it is merged with others; none if unknown."""
        if self.keys is None:
            return []
        axes = [axis for axis, size in enumerate(self.keys.shape) if size > 1]
        return [axis for axis in axes if bool((self.keys.select(axis, 0) != self.keys.select(axis, 1)).any())]

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
        self._count = 0
        self.summed: list[tuple[PossibleWeights, torch.Tensor, torch.Tensor]] = []

    def add(self, possible: PossibleWeights) -> None:
        """Keep a softmax until its result is multiplied, or the modules around it have run."""
        self._count += 1
        self.waiting.append(possible._replace(origin=self._count))

    def _in(self, args: tuple[Any, ...]) -> dict[int, PossibleWeights]:
        """The kept weights among arguments, by their position, as they were made last."""
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
            if not is_number or result.numel() != x.factor.numel() or any(result is y.factor for y in self.waiting):
                continue
            if name in _MOVES or _is_in(result, (x.factor,)):
                if x.factor is args[at]:
                    self.waiting.append(x.moved(partial(_called_on, func, args, kwargs, at), result))
            elif result.ndim == x.factor.ndim:
                dtype = max(x.dtype, result.dtype, key=lambda dtype: torch.finfo(dtype).eps)
                keys = x.keys if x.factor is args[at] and result.shape == x.factor.shape else None
                scores = x.scores if by_cell or (x.is_log and name == "exp") else None
                weights, is_log = x.weights if is_dropped else result, x.is_log and name != "exp"
                made = x._replace(weights=weights, factor=result, dtype=dtype, scores=scores, keys=keys, is_log=is_log)
                self.waiting.append(made)
        return [x.owner for x in taken.values()]

    def taken_by(
        self, func: Callable[..., Any], args: tuple[Any, ...], result: torch.Tensor
    ) -> list[tuple[PossibleWeights, torch.Tensor]]:
        """The kept softmaxes that a product multiplies with values, each with these, removed; it may mix others."""
        taken = {at: x.of_factor(args[at]) for at, x in self._in(args).items() if not x.is_log}
        origins = {x.origin: at for at, x in taken.items()}
        self.waiting = [x for x in self.waiting if x.origin not in origins]
        for at, x in taken.items():
            axes = x.key_axes if x.factor is args[at] else []
            if x.keys is not None and axes and not set(axes) & set(_axes_of_factor(func, args, at)[1]):
                keys = _mixed_keys(func, args, at, x.keys)
                self.waiting.append(x._replace(weights=result, factor=result, scores=None, keys=keys, is_mixed=True))
                return []
        sums = []
        for at in origins.values():
            x, values = taken[at], args[-1] if at == len(args) - 2 else args[-2]
            if result.ndim < 3 or (x.is_mixed and isinstance(values, nn.Parameter)):
                self.waiting.append(x)
                continue
            possible = _by_rows(x, func, args, at)
            if values.shape == 2 * possible.weights.shape[-1:]:  # a matrix may mix the keys before the values come
                self.waiting.append(x._replace(weights=result, factor=result, scores=None, is_mixed=True))
                possible = possible._replace(of_product=False)
            sums.append((possible, values))
        return sums

    def factors_in(self, args: tuple[Any, ...]) -> int:
        """How many kept softmaxes are no attention, since their product with values is multiplied here, by queries."""
        if not self.summed or any(isinstance(x, nn.Parameter) for x in args):
            return 0
        left = [x for x in self.summed if not _is_in(x[2], args)]
        count, self.summed = len(self.summed) - len(left), left
        return count

    def sums_inside(self, module: nn.Module) -> list[tuple[PossibleWeights, torch.Tensor]]:
        """The softmaxes in a module or its parts whose product with values was not multiplied again: attention."""
        if not self.summed:
            return []
        parts = set(module.modules())
        inside = [(possible, values) for possible, values, _ in self.summed if possible.owner in parts]
        self.summed = [x for x in self.summed if x[0].owner not in parts]
        return inside

    def inside(self, module: nn.Module) -> list[PossibleWeights]:
        """The softmaxes computed in a module or its parts whose result nothing has multiplied yet; they are removed."""
        if not self.waiting:
            return []
        parts = set(module.modules())
        over_last = (x for x in self.waiting if not x.key_axes or x.key_axes == [x.factor.ndim - 1])
        inside = {x.origin: x for x in over_last if x.owner in parts and not x.is_mixed and not x.is_log}
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


def _by_rows(x: PossibleWeights, func: Callable[..., Any], args: tuple[Any, ...], at: int) -> PossibleWeights:
    """The same weights as `[..., n, m]`, by the axes that their product with values leaves and sums over."""
    factor, part, axes = x.factor, args[at], list(range(x.factor.ndim))
    own, summed = _axes_of_factor(func, args, at)
    if part is not factor:  # an axis of a part has the size and the stride of the whole's
        sizes = [(part.shape[axis], part.stride(axis)) for axis in own]
        own = [axis for axis in axes if (factor.shape[axis], factor.stride(axis)) in sizes] or axes[-2:-1]
        summed = x.key_axes or axes[-1:]
    key = next((axis for axis in summed if axis in x.key_axes), summed[-1])
    query = next((axis for axis in reversed(own) if axis != key), None)
    rest = [axis for axis in axes if axis not in (query, key)]

    def move(y: torch.Tensor) -> torch.Tensor:
        return y.permute(*rest, key).unsqueeze(-2) if query is None else y.permute(*rest, query, key)

    return x.moved(move, move(factor))


def _called_on(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], at: int, x: torch.Tensor
) -> torch.Tensor:
    made: torch.Tensor = func(*args[:at], x, *args[at + 1 :], **kwargs)
    return made


def _mixed_keys(func: Callable[..., Any], args: tuple[Any, ...], at: int, keys: torch.Tensor) -> torch.Tensor:
    ones = tuple(torch.ones_like(x, dtype=torch.float32) if isinstance(x, torch.Tensor) else x for x in args)
    return (_called_on(func, ones, {}, at, keys.float()) / func(*ones)).round()


_REST = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # names of the axes that an ellipsis stands for


def _axes_of_factor(func: Callable[..., Any], args: tuple[Any, ...], at: int) -> tuple[list[int], list[int]]:
    """The axes of the factor `args[at]` of a product that are its own, as queries are, and those that are summed."""
    last = args[at].ndim - 1
    if func is not torch.einsum:
        return ([last - 1], [last]) if at == len(args) - 2 else ([last], [last - 1])
    left, arrow, made = args[0].replace(" ", "").partition("->")
    terms = []
    for term, x in zip(left.split(","), args[1:], strict=True):
        named = len(term.replace("...", ""))
        terms.append(term.replace("...", _REST[len(_REST) - x.ndim + named :]))
    made = made.replace("...", _REST) if arrow else _REST + "".join(x for x in left if left.count(x) == 1)
    others = "".join(terms[: at - 1] + terms[at:])
    mine = list(enumerate(terms[at - 1]))
    return [i for i, x in mine if x in made and x not in others], [i for i, x in mine if x not in made]
