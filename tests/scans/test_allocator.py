"""What a shard leaves between arrays that stay goes back to the system."""

import platform
import subprocess
import sys

import pytest

from tests.program import SHORT, environment

# In a process of its own: one that has held much memory has room for these arrays without asking for more.
_ARRAYS = """
from pathlib import Path

import numpy as np

from attn_cli.scans.allocator import memory_given_back


def resident():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


stay, before = [], resident()
with memory_given_back():
    passing = []
    for _ in range(1000):
        passing.append(np.ones(2**16, np.uint8))
        stay.append(np.ones(1000, np.uint8))
    print(resident() - before)
    del passing
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc alone")
def test_memory_between_arrays_that_stay_goes_back_to_the_system() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ARRAYS], capture_output=True, text=True, timeout=SHORT, check=True, env=environment()
    )
    within, after = map(int, done.stdout.split())  # MiB
    assert within > 32
    assert after < 16
