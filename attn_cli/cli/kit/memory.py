"""The memory that whole matrices take: estimated, and refused before anything runs. Bands take next to none."""

from attn_cli.errors import LimitError
from attn_cli.sources.memory import free_memory

_SPARE = 0.9  # of the free memory; the rest is for the model's own forward pass and for writing


def check_room(needed: int, what: str, hint: str) -> str:
    """Say in words what `needed` bytes for `what` are of the free memory.

    Raises LimitError with `hint` where they don't fit.
    """
    free = free_memory()
    words = f"{what} take {amount(needed)}"
    if free is None:
        return words
    if needed > free * _SPARE:
        raise LimitError(f"{words}, and {amount(free)} are free", hint)
    return f"{words} of {amount(free)} free"


def amount(size: float) -> str:
    """Bytes in words.

    >>> amount(4_500_000_000), amount(120_000_000), amount(70_000)
    ('4.5 GB', '120 MB', '0.1 MB')
    """
    if size >= 1e9:
        return f"{size / 1e9:,.1f} GB"
    return f"{size / 1e6:,.0f} MB" if size >= 1e7 else f"{size / 1e6:,.1f} MB"
