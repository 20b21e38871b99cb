"""The patches of an image among the tokens, laid out as the image is."""

from collections.abc import Sequence

import numpy as np

from attn_cli.prompt import Token

_FEWEST = 4


def patch_grid(tokens: Sequence[Token]) -> np.ndarray | None:
    """The indices `[rows, columns]` of the patches among `tokens`; None without a rectangle of at least 4 patches.

    A rectangular part of an image counts; several images or tiles, whose rows and columns are numbered alike, do not.

    >>> tokens = [Token(0, "[CLS]"), *(Token(1 + at, "", row=at // 2, column=at % 2) for at in range(4))]
    >>> patch_grid(tokens).tolist(), patch_grid(tokens[:4])
    ([[1, 2], [3, 4]], None)
    """
    places = {(t.row, t.column): at for at, t in enumerate(tokens) if t.row is not None and t.column is not None}
    several = len(places) != sum(token.row is not None for token in tokens)
    if len(places) < _FEWEST or several:
        return None
    rows, columns = (_span([int(place[axis] or 0) for place in places]) for axis in (0, 1))
    if len(rows) * len(columns) != len(places):
        return None
    return np.array([[places[row, column] for column in columns] for row in rows])


def _span(numbers: Sequence[int]) -> range:
    return range(min(numbers), max(numbers) + 1)
