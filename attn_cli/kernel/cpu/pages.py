"""Memory for numbers of rows in pages of its own, beside the heap that a model's layers take their arrays from.

An array of some hundred kilobytes would be cut out of a hole that a layer's arrays left, and what stays of a call, some
numbers a head, be laid into the rest of that hole: from then on it is too small for the next layer's arrays, and the
process grows by one of these every layer.
"""

import math
import mmap

import numpy as np

_LEAST = 2**16  # bytes; less fits between others anywhere


def zeros(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """Zeros in memory pages of their own from 64 KiB on, which go back to the system with the last view of them."""
    count = math.prod(shape)
    size = count * np.dtype(dtype).itemsize
    if size < _LEAST:
        return np.zeros(shape, dtype)
    return np.frombuffer(mmap.mmap(-1, size), dtype, count).reshape(shape)
