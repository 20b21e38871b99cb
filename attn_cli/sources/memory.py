"""The memory that could be had now."""

import os
from contextlib import suppress
from pathlib import Path

_GROUP = Path("/sys/fs/cgroup")


def free_memory(*, swap: bool = False) -> int | None:
    """Bytes that a process may still take here: what the system has available, or what its control group leaves.

    With `swap` what could be moved to disk too. None where nobody says (systems other than Linux have their own words
    for all of this).
    """
    found = []
    with suppress(OSError, ValueError, KeyError):
        sizes = _sizes(Path("/proc/meminfo"))
        found.append(1024 * (sizes["MemAvailable:"] + (sizes.get("SwapFree:", 0) if swap else 0)))
    with suppress(OSError, ValueError):
        # Files that were read count as the group's memory, and are given up as soon as it is short.
        kept = _sizes(_GROUP / "memory.stat")
        files = kept.get("inactive_file", 0) + kept.get("active_file", 0)
        used = int((_GROUP / "memory.current").read_text()) - files
        found.append(int((_GROUP / "memory.max").read_text()) - used)
    with suppress(OSError, ValueError, AttributeError):
        if not found or not swap:
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)


def _sizes(file: Path) -> dict[str, int]:
    """The first two words of every line, a name and a number."""
    lines = (line.split() for line in file.read_text("ascii").splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}
