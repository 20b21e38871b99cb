"""One call of one attention layer, as every source hands it over and every summary receives it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from attn_cli.arrays import Array
from attn_cli.errors import InputError
from attn_cli.kernel.definition.latent import Latent
from attn_cli.kernel.definition.positions import Rotation
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.walk.bands import Band, bands
from attn_cli.kernel.walk.plan import best_tile


@dataclass(frozen=True, eq=False)
class Word:
    """A word of a text; all tokens that are part of it share the object, and another place of the word has another."""

    text: str


@dataclass(frozen=True)
class Token:
    """One row or column label: what the user wrote at this place, exactly.

    `start` and `end` are character offsets into the text, None where the token stands for no text of it; `row` and
    `column` are those of the patch of an image that it stands for, None where it stands for none or nobody knows which;
    `piece` is the part of an image that a tower sees by itself: a tile, then row and column are within it, or a window.
    `word` is what a text's token is a part of, None for what is no part of a word, and where nobody knows. `generated`
    is what the model wrote itself.
    """

    index: int
    text: str
    id: int | None = None
    start: int | None = None
    end: int | None = None
    special: bool = False
    row: int | None = None
    column: int | None = None
    piece: int | None = None
    word: Word | None = field(default=None, compare=False)  # follows from the text and the place in it
    generated: bool = False


@dataclass(frozen=True)
class Written:
    """What a model wrote: its text, in how many tokens, and whether it ended there of its own accord.

    start  where it begins in the prompt's text; None where that is another text, which an encoder reads
    """

    text: str
    tokens: int
    ended: bool
    start: int | None = None


@dataclass(frozen=True)
class Prompt:
    """A text and what the source made of it; `warnings` are for the user, such as a word that the table lacks.

    tokens  those of the text; of the image or the sound in a model that reads no text
    others  the tokens of the streams that read something else, by stream: decoder, vision
    files   what was read beside the text, by kind: image, audio
    written  what the model wrote first, which is among the tokens; None where it was not asked to
    """

    text: str
    tokens: tuple[Token, ...]
    warnings: tuple[str, ...] = ()
    others: Mapping[str, tuple[Token, ...]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    written: Written | None = None


@dataclass(frozen=True)
class Place:
    """Which attention a call is: where it sits in the model and which of the batch's texts it is about.

    layer    the model's own block number
    name     the module's path in the model, or a word for what has no module
    stream   "self", "encoder", "decoder", "cross", ...
    call     0, or 1, 2, ... when the same module runs again in one forward pass
    heads    the true numbers of the heads in the arrays
    groups   for every such head the key/value head that it reads
    text     the index of the text in the batch
    way      how it was seen: "computed" by attn itself from a table or matrices; in a model through the "registry"
             of its attention, "beside" a backend that the user asked for, as its "softmax" or "sdpa" call, through
             torch's "dispatch", or as it "returned" it
    """

    layer: int
    name: str
    heads: tuple[int, ...]
    groups: tuple[int, ...]
    stream: str = "self"
    call: int = 0
    text: int = 0
    way: str = "computed"


@dataclass(frozen=True)
class Block:
    """A block of a model that showed no attention: `mixes` says what it has in its place, or what did not run.

    heads  of attention that did not run, 0 where nobody says; `note` then says why, and is "" otherwise
    """

    layer: int
    stream: str
    name: str
    mixes: str
    heads: int = 0
    note: str = ""


class Output:
    """The output `[h, n, e]` of a call, filled row by row by whoever walks the call's bands.

    A source that needs the layer's output hands one over empty: so a model's forward pass goes on with the numbers
    that were shown, and q kᵀ is computed once.
    """

    def __init__(self, array: Array) -> None:
        self.array = array
        self.rows = 0  # of all heads together

    def add(self, band: Band) -> None:
        """Take over the rows of `band`."""
        self.array[band.heads, band.start : band.stop, :] = band.output
        self.rows += (band.stop - band.start) * band.output.shape[0]

    @property
    def complete(self) -> bool:
        """Whether every row has passed."""
        return self.rows == int(self.array.shape[0] * self.array.shape[1])


class Call(Protocol):
    """What a summary may know of an attention call, however its source came by it.

    h query heads, n queries, m keys, e the width of a value; `like` is an array of the library, device and precision
    in which weights come.
    """

    @property
    def place(self) -> Place:
        """Which attention it is."""

    @property
    def queries(self) -> tuple[Token, ...]:
        """What the rows mean."""

    @property
    def keys(self) -> tuple[Token, ...]:
        """What the columns mean."""

    @property
    def rule(self) -> Rule:
        """How scores become weights."""

    @property
    def h(self) -> int:
        """The number of query heads."""

    @property
    def n(self) -> int:
        """The number of queries."""

    @property
    def m(self) -> int:
        """The number of keys."""

    @property
    def e(self) -> int:
        """The width of a value."""

    @property
    def v(self) -> Array | None:
        """The values `[g, m, e]`, as the groups of the place share them; None where only weights were seen."""

    @property
    def like(self) -> Array:
        """An array of the right library, device and precision."""

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The attention, a few rows at a time, ascending; only the asked rows.

        With `in_parts` a band may be of some of the heads only, where that is faster.
        """


@dataclass(frozen=True, eq=False)
class Ingredients:
    """What a call was made from and what comes after it, where a source knows; None where there is nothing.

    x `[n, width]`; context `[m, width]` if keys and values come from other embeddings; projection W_O
    `[h * e, width]`; value_up `[h, r, e]`, which absorbed latent attention applies to its output; latent, of which
    k and v were made; projected says whether q, k and v are products of x and not x itself; rotation, by which q and k
    were turned.
    """

    x: Array | None = None
    context: Array | None = None
    projection: Array | None = None
    value_up: Array | None = None
    latent: Latent | None = None
    projected: bool = False
    rotation: Rotation | None = None


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]` (g divides h), the rule between them, what rows and keys mean."""

    q: Array
    k: Array
    v: Array
    rule: Rule
    place: Place
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    output: Output | None = None
    ingredients: Ingredients = field(default_factory=Ingredients)

    @property
    def h(self) -> int:
        """The number of query heads."""
        return int(self.q.shape[0])

    @property
    def n(self) -> int:
        """The number of queries."""
        return int(self.q.shape[1])

    @property
    def m(self) -> int:
        """The number of keys."""
        return int(self.k.shape[1])

    @property
    def e(self) -> int:
        """The width of a value."""
        return int(self.v.shape[2])

    @property
    def like(self) -> Array:
        """The queries."""
        return self.q

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The attention of this call, a few rows at a time (only the asked rows); fills `output` if there is one."""
        heads, height = best_tile(self.q, self.k) if in_parts else (None, None)
        walk = bands(self.q, self.k, self.v, self.rule, rows=rows, height=height, heads=heads, want_scores=want_scores)
        for band in walk:
            if self.output is not None:
                self.output.add(band)
            yield band


@dataclass(frozen=True, eq=False)
class Step:
    """What one block made of the vectors of some tokens: `before` and `after` it `[rows, d]`, in NumPy.

    In a model a block is the attention with all that belongs to it (residual, norms, feed-forward); in a table it is
    the attention alone. `layer`, `stream` and `call` are those of the block's `Place`.
    """

    layer: int
    stream: str
    call: int
    before: np.ndarray
    after: np.ndarray


class Planned(NamedTuple):
    """A layer that will be shown: its number, and how many of its heads."""

    layer: int
    heads: int


@dataclass(frozen=True)
class Selection:
    """Which layers and heads are asked for; None means all. Negative numbers count from the end."""

    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None

    def has_layer(self, layer: int, total: int) -> bool:
        """Whether block `layer` of a model with blocks 0 .. total - 1 is asked for."""
        return self.layers is None or layer in {x + total if x < 0 else x for x in self.layers}

    def check_layers(self, known: Sequence[int]) -> None:
        """Refuse a layer that the model doesn't have; `known` are the numbers of those with attention, ascending."""
        total = known[-1] + 1
        for layer in self.layers or ():
            true = layer + total if layer < 0 else layer
            if true not in known:
                raise InputError(f"there is no attention layer {layer}", f"layers with attention: {ranges(known)}")

    def pick_heads(self, total: int) -> tuple[int, ...]:
        """The asked heads of a layer with `total` heads, ascending."""
        if self.heads is None:
            return tuple(range(total))
        true = sorted({x + total if x < 0 else x for x in self.heads})
        if true[0] < 0 or true[-1] >= total:
            wrong = next(x for x in self.heads if not -total <= x < total)
            raise InputError(f"there is no head {wrong}", f"heads: {ranges(range(total))}")
        return tuple(true)


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in the notation of --layer and --head.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
