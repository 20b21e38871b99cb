"""An image among the tokens: which of them are its patches, laid out as the image is."""

from collections.abc import Sequence

import numpy as np

from attn_cli.call import Token

_FEWEST = 4


def patch_grid(tokens: Sequence[Token]) -> np.ndarray | None:
    """The places `[rows, columns]` of the patches among `tokens`; None if there is no whole image, or hardly one.

    >>> tokens = [Token(0, "[CLS]"), *(Token(1 + at, "", row=at // 2, column=at % 2) for at in range(4))]
    >>> patch_grid(tokens).tolist(), patch_grid(tokens[:4])
    ([[1, 2], [3, 4]], None)
    """
    found = {(t.row, t.column): at for at, t in enumerate(tokens) if t.row is not None and t.column is not None}
    several = len(found) != sum(token.row is not None for token in tokens)
    if len(found) < _FEWEST or several:
        return None
    rows, columns = (1 + max(int(place[axis] or 0) for place in found) for axis in (0, 1))
    if rows * columns != len(found):
        return None
    return np.array([[found[row, column] for column in range(columns)] for row in range(rows)])
