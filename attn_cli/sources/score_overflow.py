"""Scores too large for their dtype: named by their rows, in place of weights that are no numbers."""

import math

import numpy as np

from attn_cli.errors import InputError
from attn_cli.selection import ranges
from attn_cli.text import cut

_BLOCK = 256


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
