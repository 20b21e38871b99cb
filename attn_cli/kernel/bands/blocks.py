"""Cells folded into blocks, a band at a time."""

import numpy as np

from attn_cli.arrays import Array, namespace


def folded(cells: Array, axis: int, offset: int, step: int) -> Array:
    """Rows (axis -2) or keys (axis -1) of cells `[..., b, c]` folded into blocks of `step`: their maxima.

    >>> import numpy as np
    >>> folded(np.arange(6).reshape(1, 6), -1, 2, 3).tolist()
    [[0, 3, 5]]
    """
    count = cells.shape[axis]
    if step == 1 or count == 0:
        return cells
    xp = namespace(cells)

    def part(start: int, stop: int) -> Array:
        return cells[..., start:stop, :] if axis == -2 else cells[..., start:stop]

    head = min(-offset % step, count)
    tail = head + (count - head) // step * step
    parts = [xp.max(part(*ends), axis=axis, keepdims=True) for ends in ((0, head),) if head]
    if tail > head:
        whole, rest = part(head, tail), cells.shape[-1:] if axis == -2 else ()
        parts.append(xp.max(xp.reshape(whole, (*whole.shape[:axis], (tail - head) // step, step, *rest)), axis=axis))
    if count > tail:
        parts.append(xp.max(part(tail, count), axis=axis, keepdims=True))
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=axis)


def farthest(highest: np.ndarray, lowest: np.ndarray) -> np.ndarray:
    """Of each block of cells the largest number or the smallest, whichever is farther from 0; -inf where it has none.

    >>> farthest(np.array([1.0, 2.0, -np.inf]), np.array([-3.0, 0.5, np.inf])).tolist()
    [-3.0, 2.0, -inf]
    """
    return np.where(highest >= -lowest, highest, lowest)
