"""The memory guard: estimates the size of whole matrices and refuses, before a model runs, what doesn't fit.

Only whole matrices need it: most answers are computed from bands of a few rows, which take next to no memory.
"""

from attn_cli.errors import LimitError
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
