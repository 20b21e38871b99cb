"""What a walk notes lies beside the heap, so that what stays of a call breaks no hole that a layer's arrays fit in."""

import ctypes

import numpy as np
import pytest
import torch

from attn_cli.kernel.cpu.walk import compiled_stats, zeros
from attn_cli.kernel.definition.mask import all_of, causal, window
from attn_cli.kernel.definition.rule import Rule
from tests.kernel.cpu.test_walk import asked, built

_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Heap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


def bytes_in_use() -> int:
    """Those of glibc's heap, and of the pages that it asked for an array."""
    try:
        mallinfo = ctypes.CDLL("libc.so.6").mallinfo2
    except (OSError, AttributeError):
        pytest.skip("not glibc, or one before 2.33")
    mallinfo.restype = _Heap
    heap = mallinfo()
    return int(heap.uordblks + heap.hblkhd)


@built
def test_the_numbers_of_rows_are_beside_the_heap() -> None:
    h, n = 4, 8192
    q, k, v = (torch.randn(h, n, 4) for _ in range(3))
    rule, wanted = Rule(1.0, mask=all_of(causal(), window(2))), asked(top=3)
    compiled_stats(q, k, v, rule, wanted, None)  # what the first one loads
    before = bytes_in_use()
    stats = compiled_stats(q, k, v, rule, wanted, None)
    assert stats is not None
    assert stats.entropy_nats.nbytes == 4 * h * n
    assert bytes_in_use() - before < stats.entropy_nats.nbytes


def test_zeros_of_any_size_are_like_numpys() -> None:
    for shape in ((0, 3), (2, 3), (3, 1 << 15)):
        for dtype in (np.float32, np.int64):
            made = zeros(shape, dtype)
            assert (made.shape, made.dtype, made.flags.writeable) == (shape, dtype, True)
            assert not made.any()
            made[...] = 1
            assert made.all()
