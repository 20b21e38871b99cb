"""Products of stacks of matrices by the array's own library, in memory that is there already."""

import numpy as np

from attn_cli.arrays import Array, is_torch, namespace


def batched(a: Array, b: Array, out: Array | None = None) -> Array:
    """a `[g, r, k]` times b `[g, k, c]`: `[g, r, c]`, in `out` if given.

    >>> batched(np.ones((1, 2, 3)), np.ones((1, 3, 1))).tolist()
    [[[3.0], [3.0]]]
    """
    if out is None:
        return a @ b
    return (namespace(a).bmm if is_torch(a) else np.matmul)(a, b, out=out)
