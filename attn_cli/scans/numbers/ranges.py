"""The ranges in which distances from queries to keys, and places of keys, are counted."""

import numpy as np

_FAR = 2**30
_DOUBLED = [8, 16, 32, 64, 128, 256, 512, 1024]

# The first of each stretch of distances: one each up to 8, then up to 16, 32, ... 1024, the rest.
STEP_EDGES = np.array([
    -_FAR, *(-far for far in reversed(_DOUBLED)), *range(-7, 9), *(far + 1 for far in _DOUBLED), _FAR,
], dtype=np.int32)  # fmt: skip
STEPS = len(STEP_EDGES) - 1
OWN = int(np.flatnonzero(STEP_EDGES == 0)[0])  # the stretch that is the query's own key
# The first key of each range of places, from that of the text.
POSITION_EDGES = np.array([0, 1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, _FAR])
POSITIONS = len(POSITION_EDGES) - 1


def distances() -> list[tuple[int | None, int | None]]:
    """The least and the largest distance, query - key, of each range in which distances are counted.

    >>> distances()[OWN - 1], distances()[OWN], distances()[OWN + 1], distances()[0], distances()[-1]
    ((1, 1), (0, 0), (-1, -1), (1025, None), (None, -1025))
    """
    pairs = zip(STEP_EDGES[:-1].tolist(), STEP_EDGES[1:].tolist(), strict=True)
    return [(None if last == _FAR else 1 - last, None if first == -_FAR else -first) for first, last in pairs]


def positions() -> list[tuple[int, int | None]]:
    """The first and the last key, from 0, of each range in which key positions are counted; None for no end.

    >>> positions()[:6], positions()[-1]
    ([(0, 0), (1, 1), (2, 2), (3, 3), (4, 7), (8, 15)], (4096, None))
    """
    pairs = zip(POSITION_EDGES[:-1].tolist(), POSITION_EDGES[1:].tolist(), strict=True)
    return [(first, None if last == _FAR else last - 1) for first, last in pairs]
