"""The queries, keys and values of each layer in a dump, by names and sizes: no model runs to find them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from attn_cli.dump import Dump, DumpArray
from attn_cli.errors import InputError
from attn_cli.model.stations import Shape
from attn_cli.summaries.bisect.layouts import layouts
from attn_cli.summaries.bisect.names import NameMap, hint_of
from attn_cli.text import counted, excerpt, listed

_ROTATED = {"q": "q_rotated", "k": "k_rotated", "v": "v"}  # the station of each operand
_BEFORE = {"q_projected": "q", "k_projected": "k"}  # arrays that rotary positions may still turn


@dataclass(frozen=True)
class HeadCounts:
    """Query heads and key heads of a layer; None for what is read off three axes."""

    queries: int | None = None
    keys: int | None = None

    def of(self, side: str) -> int | None:
        """The number for q, k or v."""
        return self.queries if side == "q" else self.keys


@dataclass(frozen=True, eq=False)
class DumpedOperands:
    """q, k and v of a dump of `tokens` tokens, by layer: `[heads, tokens, width]`, read when they are asked for."""

    sides: Mapping[str, Mapping[int, DumpArray]]
    tokens: int
    positions: tuple[int, ...] | None
    counts: Mapping[int, HeadCounts]

    @property
    def layers(self) -> list[int]:
        """The numbers of the layers that have both q and k."""
        return sorted(set(self.sides["q"]) & set(self.sides["k"]))

    def side(self, side: str) -> Mapping[int, np.ndarray]:
        """All q, k or v of layers with q and k."""
        return _Side(self, side)

    def read(self, side: str, layer: int) -> np.ndarray:
        """One array; InputError where its sizes don't say which axis is which."""
        array = self.sides[side][layer]
        heads = self.counts.get(layer, HeadCounts()).of(side) or _heads_of(array, self.tokens)
        width, rest = divmod(math.prod(array.shape), heads * self.tokens)
        shape = Shape(heads, width)
        found = None if rest else next(layouts(array.shape, shape, self.tokens, self.positions), None)
        if found is None or found.rows != self.tokens:
            raise InputError(
                f"{excerpt(array.name, 60)} is {list(array.shape)}: no {counted(heads, 'head')} of "
                f"{counted(self.tokens, 'token')}", "is it of this text? --heads and --kv-heads say how many heads"
            )  # fmt: skip
        return found.read(array.read(), shape).swapaxes(0, 1)


class _Side(Mapping[int, np.ndarray]):
    """One operand by layer; each access reads the file."""

    def __init__(self, operands: DumpedOperands, side: str) -> None:
        self._operands, self._side = operands, side

    def __getitem__(self, layer: int) -> np.ndarray:
        return self._operands.read(self._side, layer)

    def __iter__(self) -> Iterator[int]:
        return (layer for layer in self._operands.layers if layer in self._operands.sides[self._side])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def operands_of(dump: Dump, names: NameMap, tokens: int, counts: Mapping[int, HeadCounts]) -> DumpedOperands:
    """The operands that a dump's names tell of, after rotary positions; arrays without a layer are of layer 0.

    Raises InputError where no layer has both q and k.
    """
    ranked: dict[str, dict[int, list[tuple[int, DumpArray]]]] = {side: {} for side in _ROTATED}
    before: list[str] = []
    for array in dump.arrays:
        hint = names.hint(array.name) or hint_of(array.name)
        first = hint.kinds[0] if hint.kinds else ""
        before += [array.name] if first in _BEFORE else []
        for side, kind in _ROTATED.items():
            if first in (kind, side):
                rank = 2 * (first != kind) + (len(hint.kinds) > 1)  # a name that says it all before one that may
                ranked[side].setdefault(hint.layer or 0, []).append((rank, array))
    sides = {side: {layer: min(of, key=lambda x: x[0])[1] for layer, of in by_layer.items()}
             for side, by_layer in ranked.items()}  # fmt: skip
    operands = DumpedOperands(sides, tokens, dump.positions, counts)
    if not operands.layers:
        held = listed([excerpt(array.name, 40) for array in dump.arrays[:6]])
        projected = f"if {excerpt(before[0], 40)} is turned by no rotary positions: " if before else ""
        raise InputError(
            f"no layer of {dump.label} has queries and keys by name: it holds {held}",
            f"{projected}--map 'NAME=q_rotated' and --map 'NAME=k_rotated', with {{layer}} in NAME, say which they are",
        )
    return operands


def _heads_of(array: DumpArray, tokens: int) -> int:
    """The heads of an array of three axes, one of which counts the tokens, the last of which is no head's number."""
    sizes = list(array.shape)
    while len(sizes) > 3 and sizes[0] == 1:
        sizes = sizes[1:]
    if len(sizes) == 3 and sizes[:2].count(tokens) == 1:
        return sizes[1 - sizes.index(tokens)]
    raise InputError(
        f"{excerpt(array.name, 60)} is {list(array.shape)}, which doesn't say how many heads it has",
        "say it: --heads 32 --kv-heads 8, or take it from the model: -m MODEL",
    )
