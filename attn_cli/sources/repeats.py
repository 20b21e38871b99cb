"""Random texts written twice, R R, on which heads show what they do by themselves: without meaning, without grammar."""

from collections.abc import Sequence

from attn_cli.errors import InputError

_LENGTHS = (37, 50, 61)  # three, so that a head of a fixed distance can't pass for one that finds repeats
_LEAST = 8  # tokens of the longest R


def repeat_lengths(longest: int, of: str) -> Sequence[int]:
    """The number of tokens of R in three texts R R: 37, 50 and 61; less in proportion if `longest` is below 61.

    longest  the most tokens that R may have; InputError for fewer than 8, where `of` says what has too few
    """
    if longest < _LEAST:
        raise InputError(f"{of} for repeated random tokens", "give a text")
    return tuple(min(length, length * longest // max(_LENGTHS)) for length in _LENGTHS)


def longest_repeat() -> int:
    """The most tokens of the random run R that a prompt repeats: 61."""
    return max(_LENGTHS)
