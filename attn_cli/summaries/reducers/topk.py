"""Which entries of a row are the largest: found with a few vectorised passes, exact to the last tie."""

import numpy as np

from attn_cli.arrays import Array, is_torch, namespace, take_along_last_axis, to_numpy

_SHORT = 128  # entries; rows up to here are sorted whole


def heaviest(weights: Array, count: int) -> tuple[Array, Array]:
    """Values and positions `[..., count]` of the largest entries of the last axis, largest first, equal ones in order.

    On the device and in the library of `weights`, positions as 64-bit integers; `count` is at most the axis' length.

    >>> values, positions = heaviest(np.array([0.2, 0.5, 0.1, 0.2]), 3)
    >>> values.tolist(), positions.tolist()
    ([0.5, 0.2, 0.2], [1, 0, 3])
    """
    xp, c = namespace(weights), weights.shape[-1]
    if is_torch(weights) and weights.device.type != "cpu":
        # One kernel; of equal weights that compete for the last place any may get it.
        picked = weights.topk(count, dim=-1).indices.sort(-1).values
        picked = picked.gather(-1, take_along_last_axis(weights, picked).argsort(dim=-1, descending=True, stable=True))
        return take_along_last_axis(weights, picked), picked
    if not (is_torch(weights) or isinstance(weights, np.ndarray)):
        picked = xp.argsort(weights, axis=-1, descending=True, stable=True)[..., :count]
        return take_along_last_axis(weights, picked), picked
    rows = xp.reshape(weights, (-1, c))
    cells, keys = to_numpy(rows), _places(rows, count)
    values = _taken(cells, keys)
    shape = (*weights.shape[:-1], count)
    values, keys = values.reshape(shape), keys.reshape(shape)
    return (xp.from_numpy(values), xp.from_numpy(keys)) if is_torch(weights) else (values, keys)


def _places(rows: Array, count: int) -> np.ndarray:
    """The positions `[r, count]` of the largest entries in rows `[r, c]`.

    A long row is seen as `size` pieces of `groups` entries side by side; a group is the entries at the same place of
    every piece, so that maxima of groups run down columns, many at a time. The largest entries are in the `count`
    groups of the largest maxima, unless the next group's is as large: then which are first is told by sorting the row.
    """
    cells = to_numpy(rows)
    r, c = cells.shape
    if c <= _SHORT or c < 4 * count:
        return _by_weight(cells, np.arange(c), count)
    size = _group_size(c, count)
    groups = c // size
    across = size * groups
    maxima = _folded(rows[:, :across], size)
    leading = _places(maxima, min(count + 1, groups))
    keys = (leading[:, :count, None] + np.arange(0, across, groups)).reshape(r, -1)
    if across < c:
        keys = np.concatenate((keys, np.broadcast_to(np.arange(across, c), (r, c - across))), axis=1)
    found = _by_weight(_taken(cells, keys), keys, count)
    if groups > count:
        ends = _taken(to_numpy(maxima), leading[:, -2:])
        unsure = np.flatnonzero(~(ends[:, 1] < ends[:, 0]))
        if unsure.size:
            found[unsure] = _by_weight(cells[unsure], np.arange(c), count)
    return found


def _taken(cells: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The entries of every row of cells `[r, c]` at its keys `[r, k]`."""
    taken: np.ndarray = cells.reshape(-1)[keys + np.arange(0, cells.size, cells.shape[1])[:, None]]
    return taken


def _folded(rows: Array, size: int) -> Array:
    """Maxima of groups of `size` entries; a row's groups are interleaved."""
    xp = namespace(rows)
    return xp.max(xp.reshape(rows, (rows.shape[0], size, -1)), axis=1)


def _group_size(c: int, count: int) -> int:
    """How many entries share a maximum: more of them in longer rows, but never fewer groups than are asked for."""
    size = 4 if c < 256 else 8 if c < 2048 else 16
    while c // size < count:
        size //= 2
    return size


def _by_weight(weights: np.ndarray, keys: np.ndarray, count: int) -> np.ndarray:
    """Those keys `[r, count]` of `[r, w]`, or of `[w]` for all rows, with the largest weights `[r, w]`; ties ascend."""
    if weights.dtype != np.float32:
        order = np.lexsort((np.broadcast_to(keys, weights.shape), -weights), axis=-1)[:, :count]
        return np.take_along_axis(np.broadcast_to(keys, weights.shape), order, axis=-1)
    # Both in one integer each: one sort of integers, which processors do several at a time.
    bits = int(keys.max()).bit_length()
    packed = _ascending(weights).astype(np.int64)
    packed <<= bits
    np.subtract(keys, packed, out=packed)
    packed.sort(axis=-1)
    found: np.ndarray = packed[:, :count] & ((1 << bits) - 1)
    return found


def _ascending(weights: np.ndarray) -> np.ndarray:
    """float32 as 32-bit integers in the same order.

    The bits of floats without a sign are in the order of their values; those with one in the opposite order.
    """
    bits: np.ndarray = weights.view(np.int32)
    if bits.min(initial=0) >= 0:
        return bits
    bits = (weights + np.float32(0)).view(np.int32)  # -0 becomes 0
    flipped: np.ndarray = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return flipped
