"""Where in an array its numbers are wrong, in words: positions, heads, and whether errors grow."""

import numpy as np

from attn_cli.selection import ranges
from attn_cli.summaries.bisect.errors import Errors

_GROWN = 3.0  # times the errors of the first quarter that those of the last have, where they grow


def where_wrong(errors: Errors, over: np.ndarray) -> str:
    """Which positions and heads of an array are wrong, in words.

    >>> ones = np.ones((3, 2))
    >>> where_wrong(Errors(0, ones, ones), np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 0.0]]))
    'differs from position 1 on · head 0'
    """
    bad = over > 1
    rows, heads = np.flatnonzero(bad.any(axis=1)), np.flatnonzero(bad.any(axis=0))
    places = rows + errors.start
    parts = [_positions(places, errors.start, errors.start + len(over))]
    relative = (errors.error / np.maximum(errors.size, 1e-30)).max(axis=1)[rows]
    quarter = len(rows) // 4
    if quarter and np.isfinite(relative).all() and relative[-quarter:].mean() > _GROWN * relative[:quarter].mean():
        parts[0] += ", and more at later positions"
    if not np.isfinite(errors.error).all():
        parts.append("NaN or Inf")
    if bad.shape[1] > 1:
        named = ranges(heads.tolist())
        parts.append("all heads" if len(heads) == bad.shape[1] else f"head{'s' if len(heads) > 1 else ''} {named}")
    return " · ".join(parts)


def _positions(places: np.ndarray, start: int, stop: int) -> str:
    first, last = int(places[0]), int(places[-1])
    if len(places) == 1:
        return f"differs at position {first}"
    share = len(places) / (last - first + 1)
    if first == start and last == stop - 1 and share > 0.9:
        return "differs at every position"
    if last == stop - 1 and share > 0.5:
        return f"differs from position {first} on"
    if share == 1:
        return f"differs at positions {first} to {last}"
    steps = np.diff(places)
    if len(places) > 2 and (steps == steps[0]).all():
        return f"differs at every {int(steps[0])}th position from {first} on"
    return f"differs at {len(places)} positions, the first is {first}"
