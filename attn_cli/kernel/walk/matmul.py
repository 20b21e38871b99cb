"""Stacks of matrix products, by the quickest library at hand.

torch gives float32 products to MKL, which leaves 512-bit vectors alone on processors that aren't Intel's: 90 GFLOP/s on
a core of a Zen 5, where oneDNN, which torch carries too, makes 200 (measured). oneDNN makes a kernel for each shape
when it first comes up, in a millisecond and a megabyte or two, so it is asked for large products of few shapes.
"""

import platform
from functools import cache
from pathlib import Path

import numpy as np

from attn_cli.arrays import Array, is_torch, namespace

_MANY_KEYS = 1024  # from here on the kernels pay; heads with keys of their own make more and smaller products
_MANY_ROWS = 128


def prefers_onednn(q: Array, k: Array) -> bool:
    """Whether the scores of q `[h, n, d]` and k `[g, m, d]` are a matter for oneDNN, if their bands are tall enough."""
    if not is_torch(q) or q.device.type != "cpu" or str(q.dtype) != "torch.float32":
        return False
    enough = _MANY_KEYS if k.shape[0] < q.shape[0] else 2 * _MANY_KEYS
    return k.shape[1] >= enough and onednn_is_wider()


def tall(rows: int) -> bool:
    """Whether oneDNN should multiply matrices of so many rows, one pair after the other."""
    return rows >= _MANY_ROWS


@cache
def onednn_is_wider() -> bool:
    """Whether this processor has vectors that oneDNN uses and MKL doesn't."""
    import torch  # already there: asked for tensors only

    if _made_by_intel() or not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False
    try:  # the operator is there for torch's own compiler, and may change with it
        return bool(_by_onednn(torch.ones(1, 1, 2), torch.ones(1, 2, 1), None).item() == 2)
    except (AttributeError, RuntimeError, TypeError):
        return False


def _made_by_intel() -> bool:
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        return "Intel" in platform.processor()


def product(a: Array, b: Array, room: Array | None = None, *, onednn: bool = False) -> Array:
    """a `[g, r, k]` times b `[g, k, c]`: `[g, r, c]`, in `room` where the library can write there.

    With `onednn` a and b are float32 tensors on a processor, and every b[i], or its transpose, is contiguous: for
    others oneDNN has plain loops only, a thousand times as slow.

    >>> product(np.ones((1, 2, 3)), np.ones((1, 3, 1))).tolist()
    [[[3.0], [3.0]]]
    """
    if onednn:
        return _by_onednn(a, b, room)
    if room is None:
        return a @ b
    return (namespace(a).bmm if is_torch(a) else np.matmul)(a, b, out=room)


def _by_onednn(a: Array, b: Array, room: Array | None) -> Array:
    """`product` by the operator behind compiled linear layers, which makes new memory for each pair."""
    import torch

    linear = torch.ops.mkldnn._linear_pointwise.default  # x, weight, bias, and nothing to do afterwards
    if a.shape[0] == 1:
        return linear(a[0], b[0].t(), None, "none", [], "")[None]
    room = a.new_empty((*a.shape[:2], b.shape[2])) if room is None else room
    for left, right, made in zip(a, b, room, strict=True):
        made.copy_(linear(left, right.t(), None, "none", [], ""))
    return room
