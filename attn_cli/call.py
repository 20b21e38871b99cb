"""One call of one attention layer, as every source hands it over and every summary receives it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from attn_cli.arrays import Array
from attn_cli.kernel.definition.latent import Latent
from attn_cli.kernel.definition.positions import Rotation
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.bands import bands
from attn_cli.kernel.walk.plan import Planner, plan_of
from attn_cli.prompt import Token


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
    """q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]` (g divides h), the rule between them, what rows and keys mean.

    planner  decides how the call is walked
    """

    q: Array
    k: Array
    v: Array
    rule: Rule
    place: Place
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    output: Output | None = None
    ingredients: Ingredients = field(default_factory=Ingredients)
    planner: Planner = plan_of

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
        plan = self.planner(self.q, self.k, self.rule, rows=rows, want_scores=want_scores, in_parts=in_parts)
        for band in bands(self.q, self.k, self.v, self.rule, plan):
            if self.output is not None:
                self.output.add(band)
            yield band
