"""The memory guard: estimates the size of whole matrices and refuses, before a model runs, what doesn't fit.

Only whole matrices need it: most answers are computed from bands of a few rows, which take next to no memory.
"""

import re

from attn_cli.errors import InputError, LimitError
from attn_cli.sources.memory import free_memory
from attn_cli.text import decimal_bytes

_USABLE = 0.9  # of the free memory; the rest is for the model's own forward pass and for writing


def check_memory(size: int, subject: str, hint: str) -> str:
    """A sentence that says how much of the free memory `subject` takes; `size` is in bytes.

    Raises LimitError with `hint` if `size` doesn't fit.
    """
    free = free_memory()
    words = f"{subject} take {decimal_bytes(size)}"
    if free is None:
        return words
    if size > free * _USABLE:
        raise LimitError(f"{words}, and {decimal_bytes(free)} are free", hint)
    return f"{words} of {decimal_bytes(free)} free"


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def bytes_of_size(size: str, option: str) -> int:
    """The bytes that a size means; InputError for one that means none.

    >>> bytes_of_size("2GB", "--memory"), bytes_of_size("1.5 g", "--memory"), bytes_of_size("300MB", "--memory")
    (2000000000, 1500000000, 300000000)
    """
    parts = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([kmgt]?)i?b?", size.strip().lower())
    if parts is None:
        raise InputError(f"{option} {size!r} is no size", "such as 500MB or 2GB")
    return int(float(parts[1]) * _UNITS[parts[2]])
