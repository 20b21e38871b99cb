"""Routers that fall the other way where a precision can't tell two experts apart."""

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_NEAR = {"bfloat16": 2.0**-5, "float16": 2.0**-8, "4-bit": 2.0**-2}
_OTHERWISE = 2.0**-19
"""The share of the largest score by which two experts differ at most that may change places: eight roundings."""


class NearRoutes(TorchFunctionMode):
    """A torch function mode: routers choose the runner-up in place of their last expert, where both are near.

    They call `torch.topk` or `torch.max`. Near is a difference of less than a few roundings in `precision`, relative to
    the largest score: 2⁻⁵ in bfloat16, 2⁻⁸ in float16, a quarter in 4 bits, 2⁻¹⁹ in any other.
    """

    def __init__(self, precision: str) -> None:
        super().__init__()
        self.near = _NEAR.get(precision, _OTHERWISE)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run `func`."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in (torch.max, torch.Tensor.max) and not isinstance(result, torch.Tensor):
            return self._greatest(args, kwargs, result)
        if func not in (torch.topk, torch.Tensor.topk) or kwargs.get("largest") is False:
            return result
        scores, (values, chosen) = args[0], result
        count, axis = chosen.shape[-1], kwargs.get("dim", args[2] if len(args) > 2 else -1)
        if axis not in (-1, scores.ndim - 1) or count >= scores.shape[-1] or not scores.is_floating_point():
            return result
        more, numbers = func(scores, count + 1, dim=-1)
        is_near = more[..., -2:-1] - more[..., -1:] < self.near * values.abs().amax(-1, keepdim=True)
        last = torch.arange(count + 1, device=chosen.device) == count - 1
        one, other = (torch.where(is_near & last[:-1], x[..., -1:], x[..., :-1]) for x in (more, numbers))
        return torch.return_types.topk((one, other))

    def _greatest(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """The maximum over the last axis and its place, or those of the runner-up."""
        scores, axis = args[0], kwargs.get("dim", args[1] if len(args) > 1 else None)
        if axis not in (-1, scores.ndim - 1) or not scores.is_floating_point() or scores.shape[-1] < 2:
            return result
        values, places = torch.topk(scores, 2, dim=-1)
        is_near = values[..., :1] - values[..., 1:] < self.near * values[..., :1].abs()
        one, other = (torch.where(is_near, x[..., 1:], x[..., :1]).reshape(result[0].shape) for x in (values, places))
        return torch.return_types.max((one, other))
