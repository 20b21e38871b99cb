"""The memory guard: what whole matrices would take is estimated, and refused before a model runs.

Bands of a few rows, which most answers are made of, take next to none.
"""

from attn_cli.errors import LimitError
from attn_cli.sources.memory import free_memory
from attn_cli.text import decimal_bytes

_USABLE = 0.9  # of the free memory; the rest is for the model's own forward pass and for writing


def check_memory(size: int, subject: str, hint: str) -> str:
    """How many bytes `what` takes of the free memory, in words.

    Raises LimitError with `hint` if the `needed` bytes don't fit.
    """
    free = free_memory()
    words = f"{subject} take {decimal_bytes(size)}"
    if free is None:
        return words
    if size > free * _USABLE:
        raise LimitError(f"{words}, and {decimal_bytes(free)} are free", hint)
    return f"{words} of {decimal_bytes(free)} free"
