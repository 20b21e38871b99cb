"""Random texts written twice, R R, on which heads show what they do by themselves: without meaning, without grammar."""

from collections.abc import Sequence

from attn_cli.errors import InputError

_LENGTHS = (37, 50, 61)  # three, so that a head of a fixed distance can't pass for one that finds repeats
LONGEST_REPEAT = max(_LENGTHS)
_LEAST = 8  # tokens of the longest R


def repeat_lengths(longest: int, of: str) -> Sequence[int]:
    """The length of R in three texts that are a random run R written twice: 37, 50 and 61 tokens, or fewer."""
    if longest < _LEAST:
        raise InputError(f"{of} for repeated random tokens", "give a text")
    return tuple(min(length, length * longest // LONGEST_REPEAT) for length in _LENGTHS)
