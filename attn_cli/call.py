"""One call of one attention layer: what every source produces and every summary reads."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attn_cli.arrays import Array, indices, to_numpy
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.cpu.walk import compiled_stats
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.of_bands import stats_of_bands
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.prompt import Token
from attn_cli.selection import Selection


@dataclass(frozen=True)
class Place:
    """Which attention of the model a call is, and of which text of the batch.

    layer    the model's own block number
    name     the module's path in the model, or a word for what has no module
    stream   the stack that the block is in: "self", "encoder", "decoder", "cross", ...
    call     0, or 1, 2, ... when the same module runs again in one forward pass
    heads    the model's numbers of the heads in the arrays
    groups   for every such head the number of the key/value head that it reads
    way      how it was captured: "computed" by attn itself; in a model through the "registry", as a "softmax" or "sdpa"
             call, through torch's "dispatch"
    note     what a user has to know of its weights, "" for nothing
    """

    layer: int
    name: str
    heads: tuple[int, ...]
    groups: tuple[int, ...]
    stream: str = "self"
    call: int = 0
    text: int = 0
    way: str = "computed"
    note: str = ""


class Output:
    """Memory for the output `[h, n, e]` of a layer's attention, filled row by row as its weights are computed."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.done = np.zeros(array.shape[:2], dtype=bool)  # which rows of which heads are there

    def add(self, band: Band) -> None:
        """Copy the output of a band (some adjacent rows of some heads), unless all rows are there already."""
        if self.complete:
            return
        self.array[band.heads, band.start : band.stop, :] = band.output
        self.done[band.heads, band.start : band.stop] = True

    @property
    def complete(self) -> bool:
        """True if every row of every head is there."""
        return bool(self.done.all())


class Call(ABC):
    """One layer's attention to one text: n queries over m keys in h query heads, from a model, a table or a recording.

    A subclass has `place`, `queries`, `keys`, `rule`, `like` and `bands`; a token is a row or a column.

    q, k     queries `[h, n, d]`, keys of g key heads `[g, m, d]`; None where weights alone are known, or were changed
    v        the values `[g, m, e]`, one for each key head; None likewise
    output   memory for the output `[h, n, e]`; None where nobody goes on with it
    hidden   the indices of keys that the user left out, ascending
    """

    place: Place
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]
    rule: Rule
    q: Array | None = None
    k: Array | None = None
    v: Array | None = None
    output: Output | None = None
    hidden: tuple[int, ...] = ()

    @property
    def h(self) -> int:
        """The number of query heads."""
        return len(self.place.heads)

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
        return 0 if self.v is None else int(self.v.shape[2])

    @cached_property
    def is_causal(self) -> bool:
        """True if no query may attend to a key after itself; the last query stands at the last key."""
        queries = np.arange(self.n)
        seen = self.rule.mask.interval(queries, self.m)
        if seen is None:
            return not any(map(self._looks_ahead, range(self.n)))
        return bool((np.minimum(seen.last, self.m) <= np.maximum(self._after(queries), seen.first)).all())

    def _looks_ahead(self, query: int) -> bool:
        mask, after = self.rule.mask, int(self._after(query))
        if mask.span(query, query + 1, self.m).last <= after:
            return False
        i, j = indices(query, query + 1, self.like), indices(after, self.m, self.like)
        return bool(to_numpy(mask.allowed(i[:, None], j[None])).any())

    def _after(self, query: Any) -> Any:
        return query + max(self.m - self.n, 0) + 1

    @property
    def shows_scores(self) -> bool:
        """True if the scores are known, not the weights alone, as where a model's own code hides its softmax."""
        return True

    @abstractmethod
    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The weights as bands of some adjacent rows each, ascending, of all rows or of `rows`."""

    def row_stats(self, wanted: Wanted) -> RowStats:
        """The statistics of rows (entropy, largest weights ...) that `wanted` asks for, in NumPy."""
        unpooled = replace(wanted, pools=())  # blocks of a matrix are left to bands
        stats = None if unpooled.is_nothing else self.compiled_stats(unpooled)
        if stats is None:
            return stats_of_bands(self, wanted)
        return replace(stats, pooled=stats_of_bands(self, Wanted(pools=wanted.pools)).pooled if wanted.pools else {})

    def compiled_stats(self, wanted: Wanted) -> RowStats | None:
        """The statistics of rows (entropy, largest weights ...) that `wanted` asks for, by compiled code."""
        if self.q is None or self.k is None or self.v is None:
            return None
        output = None if self.output is None else self.output.array
        stats = compiled_stats(self.q, self.k, self.v, self.rule, wanted, output)
        if stats is not None and self.output is not None:
            self.output.done[:] = True
        return stats


Visit = Callable[[Call], None]


class Look(NamedTuple):
    """A request to see a run's attention: `visit` gets each layer of `selection` as a `Call`, in order."""

    selection: Selection
    visit: Visit
