"""Which entries of a row are the largest: found with a few vectorised passes, exact to the last tie."""

import numpy as np

from attn_cli.arrays import Array, is_torch, namespace, picked_from, to_numpy

_SHORT = 64  # entries; rows up to here are sorted whole


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
        picked = picked.gather(-1, picked_from(weights, picked).argsort(dim=-1, descending=True, stable=True))
        return picked_from(weights, picked), picked
    if not (is_torch(weights) or isinstance(weights, np.ndarray)):
        picked = xp.argsort(weights, axis=-1, descending=True, stable=True)[..., :count]
        return picked_from(weights, picked), picked
    rows = xp.reshape(weights, (-1, c))
    cells = to_numpy(rows)
    keys = _sifted(rows, cells, count) if c > _SHORT and c >= 4 * count else _sorted(cells, count)
    values = cells.reshape(-1)[keys + np.arange(0, cells.size, c)[:, None]]
    shape = (*weights.shape[:-1], count)
    values, keys = values.reshape(shape), keys.reshape(shape)
    return (xp.from_numpy(values), xp.from_numpy(keys)) if is_torch(weights) else (values, keys)


def _sorted(cells: np.ndarray, count: int) -> np.ndarray:
    """The positions `[r, count]` in rows `[r, c]`, by sorting the rows."""
    if cells.dtype != np.float32:
        order: np.ndarray = np.argsort(-cells, axis=-1, kind="stable")
        return order[:, :count]
    bits = cells.shape[1].bit_length()
    packed: np.ndarray = (_descending(cells) << bits) | np.arange(cells.shape[1])
    packed.sort(axis=-1)
    found: np.ndarray = packed[:, :count] & ((1 << bits) - 1)
    return found


def _sifted(rows: Array, cells: np.ndarray, count: int) -> np.ndarray:
    """The same of long rows, in their library and in NumPy: most entries are sifted out, the others sorted.

    A row is seen as `size` pieces of `groups` entries side by side; a group is the entries at the same place of every
    piece, so that maxima of groups run down columns, many at a time. No entry below the count-th largest maximum is
    among the largest, and few groups reach it.
    """
    r, c = cells.shape
    size = _group_size(c, count)
    groups = c // size
    across = size * groups
    maxima = _folded(rows[:, :across], size)
    # Any bound will do that enough entries reach: that of maxima of maxima is a little lower, and found sooner.
    fewer = _folded(maxima[:, : groups // 4 * 4], 4) if groups >= 16 * count else maxima
    bound = np.sort(to_numpy(fewer), axis=-1)[:, -count]
    # "Not below" instead of "at least" keeps NaN, so that every row keeps enough.
    kept = np.flatnonzero(~(to_numpy(maxima) < bound[:, None]))
    row = kept // groups
    first = kept + row * (c - groups)  # where in all cells the group's first entry stands
    flat = cells.reshape(-1)
    members = flat[first[:, None] + np.arange(0, across, groups)]
    inside = np.flatnonzero(~(members < bound[row][:, None]))
    group = inside // size
    row, place, weight = row[group], first[group] + (inside - group * size) * groups, members.reshape(-1)[inside]
    if across < c:
        rest = np.flatnonzero(~(cells[:, across:] < bound[:, None]))
        rest_row = rest // (c - across)
        rest += (rest_row + 1) * across
        row, place, weight = (np.concatenate(x) for x in ((row, rest_row), (place, rest), (weight, flat[rest])))
    keys = _by_weight(row, place - row * c, weight, (r, c))
    ends = np.cumsum(np.bincount(row, minlength=r))
    starts = np.concatenate(([0], ends[:-1]))
    return keys[starts[:, None] + np.arange(count)]


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


def _by_weight(row: np.ndarray, key: np.ndarray, weight: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """`key` sorted by row, then by weight from the largest, then by itself; shape bounds row and key."""
    bits = shape[1].bit_length()
    if weight.dtype != np.float32 or shape[0].bit_length() + 32 + bits > 63:
        return key[np.lexsort((key, -weight, row))]
    # All three in one integer each: one sort of integers, which processors do several at a time.
    packed: np.ndarray = (row << (32 + bits)) | (_descending(weight) << bits) | key
    packed.sort()
    return packed & ((1 << bits) - 1)


def _descending(weights: np.ndarray) -> np.ndarray:
    """float32 as integers from 0 to 2^32 - 1 in the opposite order.

    The bits of floats without a sign are in the order of their values; those with one in the opposite order.
    """
    bits: np.ndarray = (weights + np.float32(0)).view(np.int32)  # -0 becomes 0
    ascending: np.ndarray = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return 0x7FFFFFFF - ascending.astype(np.int64)
