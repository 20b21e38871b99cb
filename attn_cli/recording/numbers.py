"""Arrays in the precision in which a model computed them; NumPy has no bfloat16, so its bits are kept as integers."""

import numpy as np

from attn_cli.arrays import Array, to_numpy

BITS = np.dtype(np.uint16)  # the type of bfloat16's bits: no model computes with such integers


def kept(x: Array) -> np.ndarray:
    """A copy of `x` in NumPy, in its own dtype; bfloat16, which NumPy lacks, as its bits in uint16."""
    if str(x.dtype).endswith("bfloat16"):
        return (to_numpy(x).view(np.uint32) >> 16).astype(np.uint16)
    return np.array(to_numpy(x), order="C")


def readable(x: np.ndarray) -> np.ndarray:
    """`x` itself, or where it holds the bits of bfloat16 the same numbers in float32.

    >>> readable(np.array([0x3F80, 0xC000], dtype=np.uint16)).tolist()
    [1.0, -2.0]
    """
    return (x.astype(np.uint32) << 16).view(np.float32) if x.dtype == BITS else x
