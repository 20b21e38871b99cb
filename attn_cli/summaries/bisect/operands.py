"""The queries, keys and values of each layer in a dump, by names and sizes: no model runs to find them."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from attn_cli.dump import Dump, DumpArray
from attn_cli.errors import InputError
from attn_cli.kernel.definition.rule import Rule
from attn_cli.model.stations import Shape
from attn_cli.summaries.bisect.layouts import Layout, layouts
from attn_cli.summaries.bisect.names import NameMap, hint_of
from attn_cli.text import counted, excerpt, listed

_ROTATED = {"q": "q_rotated", "k": "k_rotated", "v": "v"}  # the station of each operand
_SCORES = re.compile(r"attn_?scores|attention_scores", re.IGNORECASE)  # of a layer, before its softmax
_BEFORE = {"q_projected": "q", "k_projected": "k"}  # arrays that rotary positions may still turn


@dataclass(frozen=True)
class HeadCounts:
    """How many heads a layer has: `queries` query heads and `keys` key heads.

    None where an array's own three axes tell how many heads it has.
    """

    queries: int | None = None
    keys: int | None = None

    def of(self, side: str) -> int | None:
        """The number of heads of an operand: `side` is "q", "k" or "v", and keys and values have the same."""
        return self.queries if side == "q" else self.keys


@dataclass(frozen=True, eq=False)
class DumpedOperands:
    """q, k and v that another engine dumped of `tokens` tokens, by layer: `[heads, tokens, width]`,
    read when asked for.

    Queries may be of the last tokens alone. A dump without queries and keys may have scores `[heads, tokens, tokens]`.
    """

    sides: Mapping[str, Mapping[int, DumpArray]]
    tokens: int
    positions: tuple[int, ...] | None
    counts: Mapping[int, HeadCounts]
    scores: Mapping[int, DumpArray] = field(default_factory=dict)

    @property
    def layers(self) -> list[int]:
        """The numbers of the layers that have both q and k; of those that have scores, where none has."""
        return sorted(set(self.sides["q"]) & set(self.sides["k"])) or sorted(self.scores)

    @property
    def shows_products(self) -> bool:
        """True where layers have q and k, False where they have scores alone."""
        return bool(set(self.sides["q"]) & set(self.sides["k"]))

    @property
    def arrays(self) -> list[DumpArray]:
        """The arrays of q, then of k, of all `layers`; of the scores where layers have these alone."""
        sides = [self.sides["q"], self.sides["k"]] if self.shows_products else [self.scores]
        return [side[layer] for side in sides for layer in self.layers]

    def read_scores(self, layer: int) -> np.ndarray:
        """The scores of a layer `[heads, tokens, tokens]`, -inf where they are about the lowest float.

        Raises InputError for another shape.
        """
        array = self.scores[layer]
        shape = array.shape[1:] if len(array.shape) == 4 and array.shape[0] == 1 else array.shape
        if len(shape) != 3 or shape[1:] != (self.tokens, self.tokens):
            expected = f"scores of {counted(self.tokens, 'token')} are [heads, queries, keys]"
            raise InputError(f"{excerpt(array.name, 60)} is {list(array.shape)}, and {expected}", "is it of this text?")
        x = np.asarray(array.read(), np.float32).reshape(shape)
        return np.where(x <= np.finfo(np.float32).min / 2, -np.inf, x)

    def side(self, side: str) -> Mapping[int, np.ndarray]:
        """All arrays "q", "k" or "v" by layer, `[heads, tokens, width]`, of the layers that have both q and k."""
        return _Side(self, side)

    def read(self, side: str, layer: int) -> np.ndarray:
        """The q, k or v (`side`) of a layer, `[heads, tokens, width]`.

        InputError where its sizes don't say which axis is which.
        """
        layout, shape = self._layout(side, layer)
        return layout.read(self.sides[side][layer].read(), shape).swapaxes(0, 1)

    def last_rows(self, rule: Rule | None, layer: int) -> Rule | None:
        """A layer's scale, mask and the like for all tokens, cut to the last queries, which the dump has;
        None stays None.
        """
        rows = self._layout("q", layer)[0].rows
        return (
            rule if rule is None or rows == self.tokens else rule.of_rows(self.tokens - rows, self.tokens, self.tokens)
        )

    def _layout(self, side: str, layer: int) -> tuple[Layout, Shape]:
        array = self.sides[side][layer]
        heads = self.counts.get(layer, HeadCounts()).of(side) or _heads_of(array, self.tokens)
        width, rest = divmod(math.prod(array.shape), heads * self.tokens)
        if side == "q" and rest:  # of fewer tokens, as wide as keys
            width = self._layout("k", layer)[1].width
            rest = math.prod(array.shape) % (heads * width)
        shape = Shape(heads, width)
        found = None if rest else next(layouts(array.shape, shape, self.tokens, self.positions), None)
        if found is None or (found.rows != self.tokens and (side != "q" or found.start + found.rows != self.tokens)):
            raise InputError(
                f"{excerpt(array.name, 60)} is {list(array.shape)}: no {counted(heads, 'head')} of "
                f"{counted(self.tokens, 'token')}", "is it of this text? --heads and --kv-heads say how many heads"
            )  # fmt: skip
        return found, shape


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
    """The q, k (after rotary positions) and v, or scores, of each layer that the names of a dump's arrays tell of.

    names   the user's own names of arrays
    tokens  how many the text has
    counts  how many heads each layer has, as far as it is known

    Arrays whose name says no layer are of layer 0. Raises InputError where no layer has both q and k, nor scores.
    """
    ranked: dict[str, dict[int, list[tuple[int, DumpArray]]]] = {side: {} for side in _ROTATED}
    before: list[str] = []
    scores: dict[int, DumpArray] = {}
    for array in dump.arrays:
        if _SCORES.search(array.name):
            scores.setdefault(hint_of(array.name).layer or 0, array)
            continue
        hint = names.hint(array.name) or hint_of(array.name)
        first = hint.kinds[0] if hint.kinds else ""
        before += [array.name] if first in _BEFORE else []
        for side, kind in _ROTATED.items():
            if first in (kind, side):
                rank = 2 * (first != kind) + (len(hint.kinds) > 1)  # a name that says it all before one that may
                ranked[side].setdefault(hint.layer or 0, []).append((rank, array))
    sides = {side: {layer: min(of, key=lambda x: x[0])[1] for layer, of in by_layer.items()}
             for side, by_layer in ranked.items()}  # fmt: skip
    operands = DumpedOperands(sides, tokens, dump.positions, counts, scores)
    if not operands.layers:
        held = listed([excerpt(array.name, 40) for array in dump.arrays[:6]])
        projected = f"if {excerpt(before[0], 40)} is turned by no rotary positions: " if before else ""
        raise InputError(
            f"no layer of {dump.label} has queries and keys, or attn_scores, by name: it holds {held}",
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
