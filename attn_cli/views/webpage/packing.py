"""The bytes of a page for weights (column by column), masks and numbers; `rows.js` reads them again."""

import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from attn_cli.recording import RecordedLayer

_LEVELS = 255  # of the square root of a weight: an error of at most 0.004
_ROWS = 256  # that are computed at once
_CLOSE = 0.002  # to 1: what a sum of rounded weights may lack
_SUMS, _SIGNED, _LOOSE = 1, 2, 4  # flags of a head: sums of rows follow; levels have signs; rows add to no sum


Choice = Callable[[np.ndarray], np.ndarray]
"""A choice of weights that a page holds: a function from rows of weights `[b, m]` to booleans of that shape."""


def at_least(threshold: float) -> Choice:
    """Choose the weights whose magnitude is `threshold` or more."""
    return lambda weights: np.abs(weights) >= threshold


def heaviest(count: int) -> Choice:
    """Choose the `count` weights of every row that are largest in magnitude; none of 0."""

    def choose(weights: np.ndarray) -> np.ndarray:
        size = np.abs(weights)
        if size.shape[1] > count:
            chosen = np.zeros(size.shape, bool)
            largest = np.argpartition(size, -count, axis=1)[:, -count:]
            np.put_along_axis(chosen, largest, True, axis=1)
        else:
            chosen = np.ones(size.shape, bool)
        chosen &= size > 0
        return chosen

    return choose


@dataclass(frozen=True, eq=False)
class PackedCells:
    """A head's c chosen weights, by `queries` and `keys` `[c]`, key first; `sums` `[n]` are of all weights of a row."""

    queries: np.ndarray
    keys: np.ndarray
    weights: np.ndarray
    sums: np.ndarray

    def at_least(self, threshold: float) -> "PackedCells":
        """These cells without those whose weight is smaller in magnitude than `threshold`; the sums stay."""
        left = np.abs(self.weights) >= threshold
        return PackedCells(self.queries[left], self.keys[left], self.weights[left], self.sums)


@dataclass(frozen=True, eq=False)
class PackedHead:
    """One head as a page holds it.

    data   the chosen weights with their queries and keys, compressed; a weight is one of 255 levels
    high   what the highest level stands for: 1, or the largest weight where some are larger
    total  the sum over rows of the magnitude of each row's sum of weights
    """

    data: bytes
    high: float
    kept: float
    total: float


def chosen_cells(layer: RecordedLayer, head: int, choice: Choice) -> PackedCells:
    """The weights of one head that `choice` takes, sorted by key, then by query, and the sums of all rows' weights."""
    queries, keys, weights, sums = [], [], [], []
    for start in range(0, layer.n, _ROWS):
        rows = slice(start, min(start + _ROWS, layer.n))
        block = layer.weights(head, rows, slice(0, layer.m))
        i, j = np.nonzero(choice(block))
        queries.append((i + start).astype(np.int32))
        keys.append(j.astype(np.int32))
        weights.append(block[i, j].astype(np.float32))
        sums.append(block.sum(axis=1, dtype=np.float64))
    every_query, every_key = np.concatenate(queries), np.concatenate(keys)
    order = np.argsort(every_key, kind="stable")  # rows came in order
    return PackedCells(every_query[order], every_key[order], np.concatenate(weights)[order], np.concatenate(sums))


def packed_head(layer: RecordedLayer, cells: PackedCells) -> PackedHead:
    """The chosen weights of one head as bytes of the page: indices as differences, roots of weights in 8 bits."""
    size = np.abs(cells.weights)
    high = max(1.0, float(size.max(initial=0.0)))
    signed, loose = bool((cells.weights < 0).any()), not layer.rule.softmax
    sums = bool(((cells.sums > 0) & (np.abs(cells.sums - 1) > _CLOSE)).any()) and not loose
    levels = np.round((_LEVELS // 2 if signed else _LEVELS) * np.sqrt(size / high)).astype(np.uint8)
    if signed:
        levels += np.where(cells.weights < 0, 128, 0).astype(np.uint8)
    columns = np.bincount(cells.keys, minlength=layer.m)
    first = np.diff(cells.keys, prepend=-1) != 0
    steps = np.where(first, (cells.queries - cells.keys) % layer.n, np.diff(cells.queries, prepend=0) - 1)
    flags = _SUMS * sums + _SIGNED * signed + _LOOSE * loose
    parts = [bytes([flags]), varints(columns), varints(steps), levels.tobytes()]
    if sums:
        parts.append(np.round(_LEVELS * np.sqrt(np.clip(cells.sums, 0, 1))).astype(np.uint8).tobytes())
    return PackedHead(packed(b"".join(parts)), high, float(size.sum()), float(np.abs(cells.sums).sum()))


def packed_mask(layer: RecordedLayer) -> bytes:
    """Which keys every query may attend to, as varints: for each row the number of runs of such keys, then the runs."""
    return b"".join(_mask_rows(layer))


def _mask_rows(layer: RecordedLayer) -> Iterator[bytes]:
    for start in range(0, layer.n, _ROWS):
        rows = slice(start, min(start + _ROWS, layer.n))
        allowed = layer.allowed(rows, slice(0, layer.m)).astype(np.int8)
        edges = np.diff(allowed, axis=1, prepend=0, append=0)
        for row in edges:
            at = np.flatnonzero(row)
            yield varints(np.concatenate([[len(at) // 2], np.diff(at, prepend=0)]))


def varints(numbers: np.ndarray) -> bytes:
    """Whole numbers from 0 on as varints: seven bits a byte, the lowest first, the eighth says that more follow."""
    left = np.asarray(numbers, dtype=np.int64)
    lengths = np.ones(len(left), dtype=np.int64)
    for bits in range(7, 63, 7):
        lengths += left >= (1 << bits)
    ends = np.cumsum(lengths)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    place = ends - lengths
    more = np.ones(len(left), dtype=bool)
    while more.any():
        follows = left >= 128
        out[place[more]] = np.where(follows, (left & 127) | 128, left)[more]
        left, place, more = left >> 7, place + 1, more & follows
    return out.tobytes()


def packed(data: bytes) -> bytes:
    """Deflated (zlib's format, which browsers call "deflate"), in base64."""
    return b64encode(zlib.compress(data))
