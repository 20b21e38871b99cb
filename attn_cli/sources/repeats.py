"""Random texts written twice, R R, on which heads show what they do by themselves: without meaning, without grammar."""

from collections.abc import Sequence

from attn_cli.errors import InputError

_LENGTHS = (37, 50, 61)  # three, so that a head of a fixed distance can't pass for one that finds repeats
_LEAST = 8  # tokens of the longest R


def repeat_lengths(longest: int, of: str) -> Sequence[int]:
    """The number of tokens that R has in each of the three texts, where it may have `longest` at most.

    Raises InputError for fewer than 8, where `of` says what has too few.

    >>> repeat_lengths(1000, "the model"), repeat_lengths(30, "the model")
    ((37, 50, 61), (18, 24, 30))
    """
    if longest < _LEAST:
        raise InputError(f"{of} for repeated random tokens", "give a text")
    return tuple(min(length, length * longest // max(_LENGTHS)) for length in _LENGTHS)


def longest_repeat() -> int:
    """The length, in tokens, of the longest random run R that a prompt repeats."""
    return max(_LENGTHS)
