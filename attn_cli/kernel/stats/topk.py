"""Top-k: the largest entries of every row in a few vectorised passes, with ties in order of position."""

import numpy as np

from attn_cli.arrays import Array, is_torch, take_along_last_axis

_SHORT = 128  # entries; rows up to here are sorted whole


def heaviest(weights: Array, count: int) -> tuple[Array, Array]:
    """The `count` largest entries of the last axis, largest first, equal ones by position: values and positions."""
    if is_torch(weights):
        # One kernel; of equal weights that compete for the last place any may get it.
        picked = weights.topk(count, dim=-1).indices.sort(-1).values
        picked = picked.gather(-1, take_along_last_axis(weights, picked).argsort(dim=-1, descending=True, stable=True))
        return take_along_last_axis(weights, picked), picked
    cells = weights.reshape(-1, weights.shape[-1])
    keys = _places(cells, count)
    shape = (*weights.shape[:-1], count)
    return _entries(cells, keys).reshape(shape), keys.reshape(shape)


def _places(cells: np.ndarray, count: int) -> np.ndarray:
    r, c = cells.shape
    if c <= _SHORT or c < 4 * count:
        return _by_weight(cells, np.arange(c), count)
    size = _group_size(c, count)
    groups = c // size
    across = size * groups
    maxima = cells[:, :across].reshape(r, size, groups).max(axis=1)
    leading = _places(maxima, min(count + 1, groups))
    keys = (leading[:, :count, None] + np.arange(0, across, groups)).reshape(r, -1)
    if across < c:
        keys = np.concatenate((keys, np.broadcast_to(np.arange(across, c), (r, c - across))), axis=1)
    places = _by_weight(_entries(cells, keys), keys, count)
    if groups > count:
        ends = _entries(maxima, leading[:, -2:])
        tied = np.flatnonzero(~(ends[:, 1] < ends[:, 0]))
        if tied.size:
            places[tied] = _by_weight(cells[tied], np.arange(c), count)
    return places


def _entries(cells: np.ndarray, keys: np.ndarray) -> np.ndarray:
    return cells.reshape(-1)[keys + np.arange(0, cells.size, cells.shape[1])[:, None]]


def _group_size(c: int, count: int) -> int:
    size = 4 if c < 256 else 8 if c < 2048 else 16
    while c // size < count:
        size //= 2
    return size


def _by_weight(weights: np.ndarray, keys: np.ndarray, count: int) -> np.ndarray:
    """The `count` keys `[r, count]`, of keys `[r, w]` or `[w]`, with the largest weights `[r, w]`; ties ascend."""
    if weights.dtype != np.float32:
        order = np.lexsort((np.broadcast_to(keys, weights.shape), -weights), axis=-1)[:, :count]
        return np.take_along_axis(np.broadcast_to(keys, weights.shape), order, axis=-1)
    # Weight and key packed into one integer: one sort of integers, which is vectorised.
    bits = int(keys.max()).bit_length()
    packed = _ascending(weights).astype(np.int64)
    packed <<= bits
    np.subtract(keys, packed, out=packed)
    packed.sort(axis=-1)
    return packed[:, :count] & ((1 << bits) - 1)


def _ascending(weights: np.ndarray) -> np.ndarray:
    bits: np.ndarray = weights.view(np.int32)
    if bits.min(initial=0) >= 0:
        return bits
    bits = (weights + np.float32(0)).view(np.int32)  # -0 becomes 0
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)
