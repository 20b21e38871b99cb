"""The memory guard: what whole matrices would take is estimated, and refused before a model runs.

Bands of a few rows, which most answers are made of, take next to none.
"""

from attn_cli.errors import LimitError
from attn_cli.sources.memory import free_memory

_USABLE = 0.9  # of the free memory; the rest is for the model's own forward pass and for writing


def check_memory(needed: int, what: str, hint: str) -> str:
    """How many bytes `what` takes of the free memory, in words.

    Raises LimitError with `hint` if the `needed` bytes don't fit.
    """
    free = free_memory()
    words = f"{what} take {bytes_in_words(needed)}"
    if free is None:
        return words
    if needed > free * _USABLE:
        raise LimitError(f"{words}, and {bytes_in_words(free)} are free", hint)
    return f"{words} of {bytes_in_words(free)} free"


def bytes_in_words(size: float) -> str:
    """A number of bytes as GB or MB.

    >>> bytes_in_words(4_500_000_000), bytes_in_words(120_000_000), bytes_in_words(70_000)
    ('4.5 GB', '120 MB', '0.1 MB')
    """
    if size >= 1e9:
        return f"{size / 1e9:,.1f} GB"
    return f"{size / 1e6:,.0f} MB" if size >= 1e7 else f"{size / 1e6:,.1f} MB"
