"""A pass as if it were computed in another precision: weights and every module's output are rounded to it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from attn_cli.sources.huggingface.anatomy.hooks import hooked

_BLOCK = 32  # numbers of a 4-bit block that share a scale
_JITTER = 2.0**-22  # of the root mean square of a row: what another order of float32 sums changes
_STEPS = {"bfloat16": 2.0**-7, "float16": 2.0**-10}  # between neighbours, relative to the smaller

Rounded = Callable[[torch.Tensor], torch.Tensor]


def rounding_to(precision: str, draw: int = 0) -> Rounded:
    """The function that rounds activations to bfloat16 or float16: to the nearest, or by chance for a `draw` above
    0.
    """
    generator = torch.Generator().manual_seed(draw)
    if precision in _STEPS:
        dtype, step = getattr(torch, precision), _STEPS[precision]

        def to_neighbour(x: torch.Tensor) -> torch.Tensor:
            if draw:
                x = x * (1 + (torch.rand(x.shape, generator=generator) - 0.5).to(x) * step)
            return x.to(dtype).to(x.dtype)

        return to_neighbour

    def jittered(x: torch.Tensor) -> torch.Tensor:
        rows, columns = x.numel() // max(x.shape[-1], 1), x.shape[-1]
        drawn = torch.randn(rows + columns, generator=generator).to(x)
        noise = drawn.as_strided((rows, columns), (1, 1)).reshape(x.shape)  # each row's is that before it, moved by one
        return torch.addcmul(x, noise, (torch.linalg.vector_norm(x, dim=-1, keepdim=True) * _JITTER / columns**0.5))

    return jittered


@contextmanager
def rounded(model: nn.Module, precision: str, draw: int = 0) -> Iterator[Rounded]:
    """Context manager: in passes of `model` weights and outputs of modules are rounded; yields what rounds
    activations.
    """
    rounding = rounding_to(precision, draw)
    weights = _of_weights(precision, draw)
    kept: dict[nn.Module, list[tuple[nn.Parameter, torch.Tensor]]] = {}

    def enter(module: nn.Module, args: Any) -> None:
        if weights is None:
            return
        own = [p for p in module.parameters(recurse=False) if p.is_floating_point()]
        kept[module] = [(p, p.data) for p in own]
        for p in own:
            p.data = weights(p.data)

    def leave(module: nn.Module, args: Any, output: Any) -> Any:
        for p, data in kept.pop(module, ()):
            p.data = data
        return _each(output, rounding)

    own_weights = [module for module in model.modules() if next(module.parameters(recurse=False), None) is not None]
    inner = [module for module in model.modules() if not any(True for _ in module.children())]
    handles = []
    for module in dict.fromkeys([*own_weights, *inner]):
        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        with hooked(*handles):
            yield rounding
    finally:
        for pairs in kept.values():
            for p, data in pairs:
                p.data = data


def round_output(rounding: Rounded) -> Callable[[nn.Module, Any, Any], Any]:
    """A forward hook that rounds the tensor that a module returns, or of a tuple the first, as `rounding` does."""
    return lambda module, args, output: _each(output, rounding)


def _each(output: Any, rounding: Rounded) -> Any:
    if isinstance(output, torch.Tensor):
        return rounding(output) if output.is_floating_point() and output.ndim > 1 else output
    if type(output) is tuple and output and isinstance(output[0], torch.Tensor):
        return (_each(output[0], rounding), *output[1:])
    return output


def _of_weights(precision: str, draw: int) -> Rounded | None:
    if precision == "4-bit":
        return partial(four_bits, draw=draw)
    if precision in _STEPS:
        return rounding_to(precision)
    return None


def four_bits(x: torch.Tensor, draw: int = 0) -> torch.Tensor:
    """A matrix rounded to 16 steps per block of 32 numbers, from the least to the largest of them; a vector as it
    is.
    """
    if x.ndim < 2:
        return x
    size = _BLOCK if x.shape[-1] % _BLOCK == 0 else x.shape[-1]
    blocks = x.reshape(-1, size)
    low, high = blocks.amin(-1, keepdim=True), blocks.amax(-1, keepdim=True)
    if draw:
        high = torch.maximum(high, -low)
        low = -high * (1 if draw % 2 else 16 / 15)
    step = ((high - low) / 15).clamp(min=1e-30)
    return (((blocks - low) / step).round().clamp(0, 15) * step + low).reshape(x.shape)
