"""What a shard leaves between arrays that stay goes back to the system."""

import platform
from pathlib import Path

import numpy as np
import pytest

from attn_cli.scans.allocator import memory_given_back

_MEBIBYTE = 2**20


def _resident() -> int:
    """The bytes of memory that this process holds."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc alone")
def test_memory_between_arrays_that_stay_goes_back_to_the_system() -> None:
    stay, before = [], _resident()
    with memory_given_back():
        passing = []
        for _ in range(1000):
            passing.append(np.ones(_MEBIBYTE // 16, np.uint8))
            stay.append(np.ones(1000, np.uint8))
        assert _resident() - before > 32 * _MEBIBYTE
        del passing
    assert _resident() - before < 16 * _MEBIBYTE
