"""Batches of texts that run together: of about the same length, so that little is padded."""

import math
from collections.abc import Sequence

_ANY_LENGTH = 8  # texts of --lines that run together whatever their length
_TOKENS = 2048  # of a larger batch, padding included
_NEAR = 4  # tokens: texts that differ by no more are always alike


def batches_by_length(
    lengths: Sequence[int], most: int, *, tokens: int = _TOKENS, together: int = _ANY_LENGTH, alike: float = math.inf
) -> list[list[int]]:
    """The indices of texts in batches of similar lengths, the shortest texts first.

    lengths   how many tokens each text has
    most      how many texts a batch has at most
    tokens    how many tokens a batch has at most with its padding, unless it has no more than `together` texts
    together  how many texts run together whatever their tokens
    alike     a batch's longest text has at most this times the tokens of its shortest, and 4 more
    """
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        size = len(batches[-1]) + 1 if batches else most + 1
        fits = size <= most and (size <= together or size * lengths[place] <= tokens)
        if fits and lengths[place] <= alike * lengths[batches[-1][0]] + _NEAR:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches
