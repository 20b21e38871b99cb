"""LayerNorm or RMSNorm as a linear map, its statistics frozen at a vector, as in direct logit attribution."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from attn_cli.arrays import at_least_float32

_TOLERANCE = 1e-3  # tolerance: relative to the largest output; a norm in half precision rounds at 4e-3
_SHIFTS = (0, 1, 2, 3)  # shifted vectors have the same mean and deviation, and other numbers in each dimension


class FrozenNorm(NamedTuple):
    """A norm with its statistics frozen at r vectors: N(y) = gain * (y, less its mean over d if `centred`) + bias.

    `gain` `[r, d]` has a row for each vector; `bias` `[d]`.
    """

    gain: torch.Tensor
    bias: torch.Tensor
    centred: bool

    def of_parts(self, parts: torch.Tensor) -> torch.Tensor:
        """The frozen norm of summands `[r, ..., d]` of its r vectors: gain times each."""
        gain = self.gain.reshape(self.gain.shape[0], *[1] * (parts.ndim - 2), -1)
        return gain * (parts - parts.mean(-1, keepdim=True) if self.centred else parts)


def freeze_norm(norm: nn.Module, x: torch.Tensor) -> FrozenNorm | None:
    """`norm` with its statistics frozen at vectors x `[r, d]`; None where it is then no gain per dimension and bias.

    >>> held = freeze_norm(nn.LayerNorm(3), torch.tensor([[1.0, 2.0, 6.0]]))
    >>> held.centred, [round(x, 3) for x in held.gain[0].tolist()]
    (True, [0.463, 0.463, 0.463])
    """
    held = freeze_call(norm, x[None])
    return None if held is None else FrozenNorm(held.gain[0], held.bias[0, 0], held.centred)


def freeze_call(norm: Callable[[torch.Tensor], Any], x: torch.Tensor) -> FrozenNorm | None:
    """A norm, any function of vectors, as a fixed linear map at x `[..., d]`: a gain per dimension and a bias."""
    bias = _called(norm, torch.zeros_like(x))
    plain = _called(norm, x)
    tolerance = _tolerance(x) * plain.abs().amax()
    centred = bool((_called(norm, x + 1) - plain).abs().amax() <= tolerance)
    inputs = torch.stack([at_least_float32(x).roll(shift, -1) for shift in _SHIFTS])  # [shifts, ..., d]
    outputs = torch.stack([_called(norm, x.roll(shift, -1)) - bias for shift in _SHIFTS])
    if centred:
        inputs = inputs - inputs.mean(-1, keepdim=True)
    best = inputs.abs().argmax(0, keepdim=True)  # the largest number of each dimension divides most exactly
    gain = outputs.gather(0, best)[0] / inputs.gather(0, best)[0]
    if not bool(((outputs - gain * inputs).abs() <= tolerance).all()):
        return None
    return FrozenNorm(gain, bias, centred)


def _called(norm: Callable[[torch.Tensor], Any], x: torch.Tensor) -> torch.Tensor:
    y = norm(x)
    output: torch.Tensor = at_least_float32(y[0] if isinstance(y, tuple) else y)
    return output


def _tolerance(x: torch.Tensor) -> float:
    return max(_TOLERANCE, 2 * torch.finfo(x.dtype).eps)
