"""Numbers written in an option, and those too large or too small for the dtype of what they enter."""

import math

import numpy as np

from attn_cli.errors import InputError
from attn_cli.selection import ranges
from attn_cli.text import cut

_BLOCK = 256  # rows of scores at a time


def numbers_in(text: str, option: str, hint: str) -> list[float]:
    """The finite numbers in `text`, with commas between; InputError with `hint` for anything else."""
    try:
        numbers = [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        numbers = []
    if not numbers or not all(math.isfinite(number) for number in numbers):
        raise InputError(f"{option} {text!r} is no finite number", hint)
    return numbers


def require_held(numbers: np.ndarray | float, name: str, dtype: np.dtype) -> None:
    """Raise InputError for finite numbers that `dtype` rounds to infinity or to 0."""
    sizes, limits = np.abs(np.asarray(numbers, dtype=np.float64)), np.finfo(dtype)
    outside = np.isfinite(sizes) & ((sizes > limits.max) | ((sizes > 0) & (sizes < limits.smallest_subnormal)))
    if outside.any():
        number = np.asarray(numbers, dtype=np.float64)[outside].flat[0]
        line = f"{name} {number:g} can't be held by {dtype}, in which these matrices are computed"
        raise InputError(line, f"{limits.smallest_subnormal:.2g} to {limits.max:.2g}, or save the matrices as float64")


def require_finite_scores(q: np.ndarray, k: np.ndarray, scale: float, hint: str) -> None:
    """Raise InputError where a score of finite q and k is beyond their dtype."""
    dtype = np.result_type(q.dtype, k.dtype, np.float32)
    if not (q.size and k.size) or not _may_overflow(q, k, scale, dtype):
        return
    rows: set[int] = set()
    keys = np.repeat(np.swapaxes(k, -1, -2), q.shape[0] // k.shape[0], axis=0).astype(dtype)  # [h, d, m]
    with np.errstate(all="ignore"):
        for start in range(0, q.shape[1], _BLOCK):
            scores = (q[:, start : start + _BLOCK].astype(dtype) * dtype.type(scale)) @ keys  # [h, b, d] @ [h, d, m]
            rows |= {start + int(row) for row in np.flatnonzero(~np.isfinite(scores).all(axis=(0, 2)))}
    if rows:
        queries, largest = cut(ranges(sorted(rows)), 60), f"{np.finfo(dtype).max:.2g}"
        raise InputError(f"scores of queries {queries} are larger than {dtype}'s largest number, {largest}", hint)


def _may_overflow(q: np.ndarray, k: np.ndarray, scale: float, dtype: np.dtype) -> bool:
    """True if d times the largest numbers is beyond `dtype`; False where q or k isn't finite to begin with."""
    sizes = [float(max(abs(x.max()), abs(x.min()))) for x in (q, k)]
    if not np.isfinite(sizes).all():
        return False
    exponents = [math.log2(max(x, 5e-324)) for x in (*sizes, abs(scale), q.shape[-1])]
    most = math.log2(float(np.finfo(dtype).max))
    return max(sum(exponents), exponents[0] + exponents[2], exponents[2]) >= most - 1
