"""Floats of 8 bits, with the scale 1: what a cache holds whose scales were never measured."""

import torch

_TYPES = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


def of_float8(numbers: torch.Tensor, format: str) -> torch.Tensor:
    """Float32 numbers rounded to the nearest of 8 bits; beyond the largest of these, to that, as engines saturate."""
    dtype = _TYPES[format]
    largest = torch.finfo(dtype).max
    return numbers.clamp(-largest, largest).to(dtype).float()
