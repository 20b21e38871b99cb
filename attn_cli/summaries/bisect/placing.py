"""The station of each array of a dump, by its name: `3.q_rotated`, `logits`, or what --map says of other names."""

import re
from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import numpy as np

from attn_cli.dump import Dump, DumpArray
from attn_cli.errors import InputError
from attn_cli.model.stations import KINDS, Shape, Station, station
from attn_cli.text import excerpt, listed

_LAYER = "{layer}"
_NAMED = re.compile(r"(?:(?:.*[^\d])?(\d{1,6})\.)?(\w+)")


class StationNames:
    """What names of arrays mean: `3.q_rotated` by itself, others by the user's lines such as `blk{layer}.q=q_rotated`.

    InputError for a line that names no station (a place in the forward pass), or no layer for one that every layer has.
    """

    def __init__(self, lines: tuple[str, ...] = ()) -> None:
        self._mapped: list[tuple[re.Pattern[str], str]] = []
        for line in lines:
            template, equal, kind = line.rpartition("=")
            if not equal or kind not in KINDS:
                raise InputError(f"--map {excerpt(line, 60)} names no station",
                                 f"NAME=STATION, such as blk{_LAYER}.q=q_rotated, of {listed(KINDS, 20)}")  # fmt: skip
            if station(kind).is_of_layer and _LAYER not in template:
                raise InputError(f"--map {excerpt(line, 60)} names no layer", f"write {_LAYER} where its number stands")
            pattern = re.escape(template).replace(re.escape(_LAYER), r"(?P<layer>\d{1,6})", 1)
            self._mapped.append((re.compile(pattern), kind))

    def station_of(self, name: str) -> Station | None:
        """The station that an array's name says: a place in the forward pass; None for a name that says none.

        >>> StationNames().station_of("layers.3.q_rotated"), StationNames(("Q-{layer}=q",)).station_of("Q-3")
        (Station(layer=3, kind='q_rotated'), Station(layer=3, kind='q'))
        """
        for pattern, kind in self._mapped:
            if match := pattern.fullmatch(name):
                return station(kind, int(match.groupdict().get("layer") or 0))
        match = _NAMED.fullmatch(name)
        if match is None or match[2] not in KINDS:
            return None
        layer, kind = match.groups()
        return None if station(kind).is_of_layer and layer is None else station(kind, int(layer or 0))


class Placed(NamedTuple):
    """One array of a dump, and the station whose numbers it has: a place in the model's pass, such as q after rotary.

    shape  heads and width of the model's own numbers at the station
    start  the position of its first row
    rows   how many rows it has
    """

    array: DumpArray
    at: Station
    shape: Shape
    start: int
    rows: int

    def values(self) -> np.ndarray:
        """The array's numbers in the axes of the model's: `[positions, heads, width]` or `[positions, width]`."""
        x, (heads, width) = self.array.read(), self.shape
        if not heads:
            return x.reshape(self.rows, width)
        if _has_rows_first(x.shape, self.shape):
            return x.reshape(self.rows, heads, width)
        return x.reshape(heads, self.rows, width).swapaxes(0, 1)


class Unplaced(NamedTuple):
    """An array of a dump that belongs to no station (a place in the forward pass) of the model, and why, in words."""

    array: DumpArray
    why: str


def placed_arrays(
    dump: Dump, shapes: Mapping[Station, Shape], tokens: int, logits: int, names: StationNames, until: int | None
) -> tuple[dict[str, Placed], list[Unplaced]]:
    """By name each array that is of one of the model's stations, in the order of the pass; and all others."""
    placed: list[Placed] = []
    unplaced: list[Unplaced] = []
    for array in dump.arrays:
        at = names.station_of(array.name)
        if at is None:
            unplaced.append(Unplaced(array, "its name says no station"))
            continue
        if until is not None and at.layer > until:
            continue
        if at not in shapes:
            of_layer = f" in layer {at.layer}" if at.is_of_layer else ""
            unplaced.append(Unplaced(array, f"the model shows no {at.words}{of_layer}"))
            continue
        shape, most = shapes[at], logits if at.kind == "logits" else tokens
        rows = _rows(array.shape, shape)
        if rows is None or rows > most:
            axes = f"{shape.heads} heads of {shape.width}" if shape.heads else f"{shape.width} columns"
            unplaced.append(Unplaced(array, f"{at.words} has {axes} for each of {most} positions"))
            continue
        start = dump.positions[0] if dump.positions and len(dump.positions) == rows else most - rows
        placed.append(Placed(array, at, shape, start, rows))
    placed.sort(key=lambda one: one.at.order)
    return {one.array.name: one for one in placed}, unplaced


def _rows(sizes: tuple[int, ...], shape: Shape) -> int | None:
    """How many positions an array of these sizes has; None where it doesn't have the heads and width of `shape`."""
    if len(sizes) < 2:
        return None
    if _has_rows_first(sizes, shape):
        return sizes[1] if sizes[0] == 1 and prod(sizes[1:]) != _columns(shape) else sizes[0]
    inner = sizes[1:] if len(sizes) == 4 and sizes[0] == 1 else sizes
    return inner[1] if len(inner) == 3 and (inner[0], inner[2]) == shape else None


def _has_rows_first(sizes: tuple[int, ...], shape: Shape) -> bool:
    return prod(sizes[1:]) == _columns(shape) or (sizes[:1] == (1,) and prod(sizes[2:]) == _columns(shape))


def _columns(shape: Shape) -> int:
    return max(shape.heads, 1) * shape.width
