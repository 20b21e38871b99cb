"""A layer's RoPE layout (half-split or interleaved, full or partial): guessed from cos and sin, and proved."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from attn_cli.kernel.definition.positions import Turning


class Angles(NamedTuple):
    """cos and sin of one angle per key and pair of columns `[m, pairs]`, times the model's factor on both (YaRN)."""

    cos: np.ndarray
    sin: np.ndarray


def find_rope_layout(
    query: np.ndarray, place: int, tables: Sequence[Angles], outputs: Sequence[np.ndarray], tolerance: float
) -> Turning:
    """How rotary positions turned query `[d]`, by cos and sin `[m, columns]`; or in `unknown` why none fits."""
    rows = [output for output in outputs if len(output) >= len(query)]
    if _distance(query, rows) <= tolerance:
        return Turning()
    if not tables:
        return Turning(unknown="the attention is given no cos and sin, and its query is the output of no module in it")
    best, least = None, tolerance
    for angles, pairs in _proposals(tables, len(query)):
        distance = min(_distance(back, rows) for back in _unrotate(query, place, angles, pairs))
        if distance <= least:
            best, least = (angles, pairs), distance
        if least <= tolerance / 10:
            break
    if best is None:
        return Turning(unknown="the query, un-rotated by cos and sin, is not the output of any module of the attention")
    angles, pairs = best
    return Turning(pairs.first, pairs.second, angles.cos, angles.sin, pairs.words(len(query)))


class Pairs(NamedTuple):
    """The columns that rotary positions turn in pairs: neighbours if `interleaved`, else half a width apart."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    interleaved: bool

    def words(self, d: int) -> str:
        """How the pairs lie in a head of d columns: "halves" (i, i + half) or "interleaved" (2i, 2i + 1)."""
        layout, low, high = "interleaved" if self.interleaved else "halves", min(self.first), max(self.second)
        return layout if high - low + 1 == d else f"{layout} of columns {low}-{high}"


def _proposals(tables: Sequence[Angles], d: int) -> Iterator[tuple[Angles, Pairs]]:
    reversed_tables = [Angles(table.cos, -table.sin) for table in tables]
    for table in (*tables, *reversed_tables):
        width = table.cos.shape[-1]
        half = width // 2
        readings = [table]  # one angle for a pair
        if width % 2 == 0:  # one for a column: as halves, or each twice
            readings = [Angles(table.cos[:, :half], table.sin[:, :half]), table]
            readings.append(Angles(table.cos[:, ::2], table.sin[:, ::2]))
        for angles in readings:
            count = angles.cos.shape[-1]
            if 2 * count > d:
                continue
            for start in dict.fromkeys((0, d - 2 * count)):
                columns = range(start, start + 2 * count)
                yield angles, Pairs(tuple(columns[:count]), tuple(columns[count:]), False)
                yield angles, Pairs(tuple(columns[::2]), tuple(columns[1::2]), True)


def _unrotate(query: np.ndarray, place: int, angles: Angles, pairs: Pairs) -> Iterator[np.ndarray]:
    """The query before its rotation; some models (DeepSeek-V3) sorted its columns before, from pairs to halves."""
    first, second = list(pairs.first), list(pairs.second)
    cos, sin = angles.cos[place], angles.sin[place]  # [pairs]
    square = cos * cos + sin * sin
    if not (square > 0).all():
        return
    x, y = query[first], query[second]
    back = query.copy()
    back[first], back[second] = (x * cos + y * sin) / square, (y * cos - x * sin) / square
    yield back
    if not pairs.interleaved:
        unsorted = back.copy()
        start = min(first)
        unsorted[start : start + 2 * len(first) : 2] = back[first]
        unsorted[start + 1 : start + 2 * len(first) : 2] = back[second]
        yield unsorted


def _distance(query: np.ndarray, outputs: Sequence[np.ndarray]) -> float:
    length = float(np.sqrt(query @ query))
    if length == 0 or not outputs:
        return np.inf
    return min(_smallest_angle(query / length, output) for output in outputs)


def _smallest_angle(direction: np.ndarray, output: np.ndarray) -> float:
    d = len(direction)
    along = np.correlate(output, direction)  # [len(output) - d + 1]
    sums = np.concatenate(([0.0], np.cumsum(output * output)))
    squares = np.maximum(sums[d:] - sums[:-d], 0.0)
    lengths = np.sqrt(squares)
    at = int(np.argmax(np.divide(along, lengths, out=np.full_like(along, -1.0), where=lengths > 0)))
    window = output[at : at + d]
    size = float(np.sqrt(window @ window))
    if size == 0:
        return np.inf
    offset = window / size - direction
    return float(np.sqrt(offset @ offset))
