"""The memory that a process may still take, and has taken; the guard that refuses what doesn't fit."""

import ctypes
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path

from attn_cli.errors import LimitError
from attn_cli.text import decimal_bytes

_CONTROL_GROUP = Path("/sys/fs/cgroup")
_USABLE = 0.9  # of the free memory; the rest is for the model's own forward pass and for writing


def check_memory(size: int, subject: str, hint: str) -> str:
    """A sentence that says how much of the free memory `size` bytes are; `subject` names what takes them."""
    free = free_memory()
    words = f"{subject} take {decimal_bytes(size)}"
    if free is None:
        return words
    if size > free * _USABLE:
        raise LimitError(f"{words}, and {decimal_bytes(free)} are free", hint)
    return f"{words} of {decimal_bytes(free)} free"


def let_go() -> None:
    """Give back to the system the memory of all that nothing refers to any more, of a GPU too."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None  # of glibc
    if trim is not None:
        trim(0)


def free_memory() -> int | None:
    """Bytes that this process can still allocate: the system's available memory, or what its control group leaves."""
    limits = []
    with suppress(OSError, ValueError, KeyError):
        limits.append(1024 * _sizes(Path("/proc/meminfo"))["MemAvailable:"])
    with suppress(OSError, ValueError):
        # The page cache counts as memory of the group, but is freed when memory gets short.
        stat = _sizes(_CONTROL_GROUP / "memory.stat")
        files = stat.get("inactive_file", 0) + stat.get("active_file", 0)
        used = int((_CONTROL_GROUP / "memory.current").read_text()) - files
        limits.append(int((_CONTROL_GROUP / "memory.max").read_text()) - used)
    with suppress(OSError, ValueError, AttributeError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=None)


def peak_memory() -> int | None:
    """The most bytes of memory that this process has held so far; None but on Linux."""
    with suppress(OSError, ValueError, KeyError):  # ru_maxrss counts what the process held that started this one
        return 1024 * _sizes(Path("/proc/self/status"))["VmHWM:"]
    return None


def _sizes(file: Path) -> dict[str, int]:
    lines = (line.split() for line in file.read_text("ascii").splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}
