"""Numbers written in an option, with commas between them."""

import math

import numpy as np

from attn_cli.errors import InputError


def numbers_in(text: str, option: str, hint: str) -> list[float]:
    """The finite numbers in `text`, with commas between; InputError with `hint` for anything else."""
    try:
        numbers = [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        numbers = []
    if not numbers or not all(math.isfinite(number) for number in numbers):
        raise InputError(f"{option} {text!r} is not finite numbers", hint)
    return numbers


def require_held(numbers: np.ndarray | float, name: str, dtype: np.dtype) -> None:
    """Raise InputError for finite numbers that `dtype` rounds to infinity or to 0."""
    sizes, limits = np.abs(np.asarray(numbers, dtype=np.float64)), np.finfo(dtype)
    outside = np.isfinite(sizes) & ((sizes > limits.max) | ((sizes > 0) & (sizes < limits.smallest_subnormal)))
    if outside.any():
        number = np.asarray(numbers, dtype=np.float64)[outside].flat[0]
        raise InputError(
            f"{name} {number:g} can't be held by {dtype}, in which these matrices are computed",
            f"{limits.smallest_subnormal:.2g} to {limits.max:.2g}, or save the matrices as float64",
        )
