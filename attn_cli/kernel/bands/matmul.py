"""Products of stacks of matrices: by the array's own library, or by oneDNN where that is quicker.

torch gives float32 products to MKL, which leaves 512-bit vectors alone on processors that aren't Intel's: 90 GFLOP/s on
a core of a Zen 5, where oneDNN, which torch carries too, reaches 200 (measured). oneDNN compiles a kernel for each
shape when it first comes up, in a millisecond and a megabyte or two, so it is for large products of few shapes.

Products of attention serve bands alone: what the compiled walk doesn't do (whole matrices, scores of blocks, words,
shares by value), and everything where it wasn't built. `onednn_is_wider` is also asked before the linear layers of a
model that reads a corpus are multiplied.
"""

import platform
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np

from attn_cli.arrays import Array, is_torch, namespace


class Product(Protocol):
    """Multiplies stacks of matrices."""

    def __call__(self, a: Array, b: Array, out: Array | None = None) -> Array:
        """a `[g, r, k]` times b `[g, k, c]`: `[g, r, c]`; `out` is memory that it may be written to."""


def batched(a: Array, b: Array, out: Array | None = None) -> Array:
    """All pairs at once, by the library of the arrays, in `out` if given.

    >>> batched(np.ones((1, 2, 3)), np.ones((1, 3, 1))).tolist()
    [[[3.0], [3.0]]]
    """
    if out is None:
        return a @ b  # [g, r, k] @ [g, k, c]
    return (namespace(a).bmm if is_torch(a) else np.matmul)(a, b, out=out)


def by_onednn(a: Array, b: Array, out: Array | None = None) -> Array:
    """One pair after the other, by the operator behind torch's compiled linear layers; a single pair is not in `out`.

    a and b are float32 tensors on a processor, and every b[i], or its transpose, is contiguous: for others oneDNN has
    plain loops only, a thousand times as slow.
    """
    import torch  # imported already, because a is a tensor

    linear = torch.ops.mkldnn._linear_pointwise.default  # x, weight, bias, and no activation
    if a.shape[0] == 1:
        return linear(a[0], b[0].t(), None, "none", [], "")[None]
    out = a.new_empty((*a.shape[:2], b.shape[2])) if out is None else out
    for left, right, pair in zip(a, b, out, strict=True):
        pair.copy_(linear(left, right.t(), None, "none", [], ""))  # [r, k] @ [k, c]
    return out


@cache
def onednn_is_wider() -> bool:
    """Whether this processor has vectors that oneDNN uses and MKL doesn't, and this torch can call oneDNN."""
    import torch  # imported already, because only tensors are multiplied so

    if made_by_intel() or not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False
    return multiplies(by_onednn)


def made_by_intel() -> bool:
    """Whether this processor is Intel's."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        return "Intel" in platform.processor()


def multiplies(product: Product) -> bool:
    """Whether `product` works with this torch: oneDNN's operator is there for torch's compiler and may change with it.

    >>> multiplies(batched)
    True
    """
    import torch

    try:
        return bool(product(torch.ones(1, 1, 2), torch.ones(1, 2, 1)).item() == 2)
    except (AttributeError, RuntimeError, TypeError):
        return False
