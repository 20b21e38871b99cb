"""GGUF's blocks of 32 numbers: a float16 scale, for q4_1 and q5_1 a float16 least number, and whole numbers.

Rounded and given back as `quantize_row_q*_ref` and `dequantize_row_q*` of ggml-quants.c do, and gguf.quants in Python.
"""

import torch

_BLOCK = 32
_LEVELS = {"q4_0": 16, "q5_0": 32, "q4_1": 16, "q5_1": 32}


def of_blocks(numbers: torch.Tensor, format: str) -> torch.Tensor:
    """Float32 numbers, whose last axis holds whole blocks, rounded in one of GGUF's formats and given back."""
    blocks = numbers.reshape(*numbers.shape[:-1], -1, _BLOCK)
    if format == "q8_0":
        given_back = _with_127_levels(blocks)
    elif format.endswith("_0"):
        given_back = _from_scale(blocks, _LEVELS[format])
    else:
        given_back = _from_least(blocks, _LEVELS[format])
    return given_back.flatten(-2)


def _with_127_levels(blocks: torch.Tensor) -> torch.Tensor:
    """The largest number becomes 127 or -127; halves are rounded away from 0."""
    scale = blocks.abs().amax(-1, keepdim=True) / 127
    steps = blocks * _inverse(scale)
    size = steps.abs()
    floor = size.floor()
    # + 0.0: a whole number has no negative zero
    return _half(scale) * (steps.sign() * (floor + (2 * (size - floor)).floor()) + 0.0)


def _from_scale(blocks: torch.Tensor, levels: int) -> torch.Tensor:
    """The number that is largest by size becomes the lowest level, whatever its sign: the scale may be negative."""
    largest = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True))
    scale = largest / -(levels // 2)
    steps = (blocks * _inverse(scale) + (levels / 2 + 0.5)).trunc().clamp(0, levels - 1)
    return _half(scale) * (steps - levels // 2)


def _from_least(blocks: torch.Tensor, levels: int) -> torch.Tensor:
    """The least number becomes level 0, the greatest the highest level."""
    least, greatest = blocks.amin(-1, keepdim=True), blocks.amax(-1, keepdim=True)
    scale = (greatest - least) / (levels - 1)
    steps = ((blocks - least) * _inverse(scale) + 0.5).trunc().clamp(0, levels - 1)
    return _half(scale) * steps + _half(least)


def _inverse(scale: torch.Tensor) -> torch.Tensor:
    """1 / scale; 0 for a scale of 0, that of a block of zeros or equal numbers."""
    return torch.where(scale == 0, 0.0, 1 / scale)


def _half(numbers: torch.Tensor) -> torch.Tensor:
    """Numbers as float16 keeps them."""
    return numbers.half().float()
