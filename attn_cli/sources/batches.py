"""Batches of texts that run together: of about the same length, so that little is padded."""

import math
from collections.abc import Sequence

_ANY_LENGTH = 8  # texts of --lines that run together whatever their length
_TOKENS = 2048  # of a larger batch, padding included
_NEAR = 4  # tokens: texts that differ by no more are always alike


def batches_by_length(
    lengths: Sequence[int], most: int, *, tokens: int = _TOKENS, together: int = _ANY_LENGTH, alike: float = math.inf
) -> list[list[int]]:
    """The indices of texts in batches of similar lengths, the shortest texts first."""
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        size = len(batches[-1]) + 1 if batches else most + 1
        fits = size <= most and (size <= together or size * lengths[place] <= tokens)
        if fits and lengths[place] <= alike * lengths[batches[-1][0]] + _NEAR:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches
