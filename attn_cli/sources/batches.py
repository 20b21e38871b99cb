"""Which texts run together: those of about the same length, so that little is padded."""

from collections.abc import Sequence

_ANY_LENGTH = 8  # texts that run together whatever their length
_TOKENS = 2048  # of a larger batch, padding included


def batches_by_length(lengths: Sequence[int], most: int) -> list[list[int]]:
    """The places of texts with so many tokens, in batches of at most `most`, the shortest texts first.

    >>> batches_by_length([5, 900, 4, 5], most=3)
    [[2, 0, 3], [1]]
    """
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        size = len(batches[-1]) + 1 if batches else most + 1
        if size <= most and (size <= _ANY_LENGTH or size * lengths[place] <= _TOKENS):
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches
