"""One call of one attention layer: what every source produces and every summary reads."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from attn_cli.arrays import Array, indices, to_numpy
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import Planner, plan_of
from attn_cli.kernel.definition.latent import Latent
from attn_cli.kernel.definition.positions import Rotation, Turning
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.compiled import compiled_stats
from attn_cli.kernel.stats.of_bands import stats_of_bands
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.prompt import Token
from attn_cli.selection import Selection


@dataclass(frozen=True)
class Place:
    """Where an attention call is: its module in the model, and its text in the batch.

    layer    the model's own block number
    name     the module's path in the model, or a word for what has no module
    stream   "self", "encoder", "decoder", "cross", ...
    call     0, or 1, 2, ... when the same module runs again in one forward pass
    heads    the true numbers of the heads in the arrays
    groups   for every such head the key/value head that it reads
    text     the index of the text in the batch
    way      how it was captured: "computed" by attn itself from a table or matrices; in a model through the
             "registry" of attention functions, as a "softmax" or "sdpa" call, through torch's "dispatch", or as weights
             that the module "returned"
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
    """The output `[h, n, e]` of a call, filled row by row as the call's bands are walked.

    A source whose forward pass continues with the layer's output passes an empty one, so that q kᵀ is computed once.
    """

    def __init__(self, array: Array) -> None:
        self.array = array
        self.rows = 0  # of all heads together

    def add(self, band: Band) -> None:
        """Copy the rows of `band`, unless all rows are there already."""
        if self.complete:
            return
        self.array[band.heads, band.start : band.stop, :] = band.output
        self.rows += (band.stop - band.start) * band.output.shape[0]

    def filled(self) -> None:
        """All rows were written into the array."""
        self.rows = int(self.array.shape[0] * self.array.shape[1])

    @property
    def complete(self) -> bool:
        """Whether every row has been copied."""
        return self.rows == int(self.array.shape[0] * self.array.shape[1])


class Call(ABC):
    """One attention call, whatever its source: n queries over m keys in h query heads.

    A subclass has `place`, `queries`, `keys`, `rule`, `h`, `like` and `bands`; by default it has a row and a column for
    each token, and no values.

    place    which attention it is
    queries  the tokens of the rows
    keys     the tokens of the columns
    rule     how scores become weights
    v        the values `[g, m, e]`, one for each key head; None where a source shows weights alone
    """

    place: Place
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    rule: Rule
    v: Array | None = None

    @property
    @abstractmethod
    def h(self) -> int:
        """The number of query heads."""

    @property
    @abstractmethod
    def like(self) -> Array:
        """An array of the library, device and precision in which weights come."""

    @property
    def n(self) -> int:
        """The number of queries."""
        return len(self.queries)

    @property
    def m(self) -> int:
        """The number of keys."""
        return len(self.keys)

    @property
    def e(self) -> int:
        """The width of a value; 0 without values."""
        return 0

    @property
    def is_causal(self) -> bool:
        """Whether no query may attend to a key after itself; the last query stands at the last key."""
        if self.n == 0 or self._looks_ahead(0):
            return self.n == 0
        queries = np.arange(1, self.n)
        seen = self.rule.mask.interval(queries, self.m)
        if seen is None:
            return not any(map(self._looks_ahead, range(1, self.n)))
        return bool((np.minimum(seen.last, self.m) <= np.maximum(self._after(queries), seen.first)).all())

    def _looks_ahead(self, query: int) -> bool:
        mask, after = self.rule.mask, int(self._after(query))
        if mask.span(query, query + 1, self.m).last <= after:
            return False
        i, j = indices(query, query + 1, self.like), indices(after, self.m, self.like)
        return bool(to_numpy(mask.allowed(i[:, None], j[None])).any())

    def _after(self, query: Any) -> Any:
        """The first key after each query; of more queries than keys query 0 stands at key 0."""
        return query + max(self.m - self.n, 0) + 1

    @property
    def shows_scores(self) -> bool:
        """Whether bands can carry scores: not where a model's code computes its softmax where it can't be seen."""
        return True

    @abstractmethod
    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The attention, a few rows at a time, ascending; of all rows or of `rows`.

        With `in_parts` a band may be of some of the heads only, where that is faster.
        """

    def row_stats(self, wanted: Wanted) -> RowStats:
        """The statistics of its rows that are wanted, read off its bands."""
        return stats_of_bands(self, wanted)


class Look(NamedTuple):
    """What is looked at while a model runs: `visit` is called with the attention calls of the selection."""

    selection: Selection
    visit: Callable[[Call], None]


@dataclass(frozen=True, eq=False)
class Ingredients:
    """What a call was computed from and what follows it; None where there is no such thing, or it is unknown.

    x           embeddings of the queries `[n, width]`
    context     embeddings of keys and values `[m, width]`, if they are not x
    projection  W_O `[h * e, width]`
    value_up    U_V `[h, r, e]`, which absorbed latent attention applies to its output
    latent      the latents that k and v are computed from
    projected   whether q, k and v are products of x and not x itself
    rotation    the rotary position embedding of q and k
    turning     finds out how columns of q and k were turned, while the call is visited
    residual_lengths  finds the lengths of the keys' vectors in the residual stream before the block `[m]`, while the
                call is visited; None where that isn't seen
    """

    x: Array | None = None
    context: Array | None = None
    projection: Array | None = None
    value_up: Array | None = None
    latent: Latent | None = None
    projected: bool = False
    rotation: Rotation | None = None
    turning: Callable[[], Turning] | None = None
    residual_lengths: Callable[[], Array | None] | None = None


@dataclass(frozen=True, eq=False)
class AttentionCall(Call):
    """q `[h, n, d]`, k `[g, m, d]`, v `[g, m, e]` (g divides h), the rule between them, what rows and keys mean.

    planner  decides how the call is walked
    """

    q: Array
    k: Array
    v: Array = field()  # without the default of every call
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
        """The attention of this call, a few of all rows, or of `rows`, at a time; fills `output` if there is one."""
        plan = self.planner(self.q, self.k, self.rule, rows=rows, want_scores=want_scores, in_parts=in_parts)
        for band in bands(self.q, self.k, self.v, self.rule, plan):
            if self.output is not None:
                self.output.add(band)
            yield band

    def row_stats(self, wanted: Wanted) -> RowStats:
        """The statistics of its rows, by compiled code where one suits; either fills `output`."""
        stats = self.compiled_stats(wanted)
        return super().row_stats(wanted) if stats is None else stats

    def compiled_stats(self, wanted: Wanted) -> RowStats | None:
        """The same by compiled code, None where none suits."""
        output = None if self.output is None else self.output.array
        stats = compiled_stats(self.q, self.k, self.v, self.rule, wanted, output)
        if stats is not None and self.output is not None:
            self.output.filled()
        return stats
