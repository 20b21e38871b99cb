"""Per-row statistics of attention: what a reader may ask of a call, and what it is answered without stored weights."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from attn_cli.arrays import Array

Rows = tuple[int, ...] | None
"""Ascending query rows; None for all."""


@dataclass(frozen=True)
class TopK:
    """A request for the `count` keys of largest weight in every row, largest first, equal ones by key number.

    by          "weight"; or "value" or "output": the weight times the norm of the value, for "output" after W_O, over
                the sum of these in the row
    """

    count: int
    mean_heads: bool = False
    by: str = "weight"
    scores: bool = True


@dataclass(frozen=True)
class ColumnSums:
    """A request for the sum over `rows` (None for all) of weights on every key `[h, m]`, with `mean_heads` `[1, m]`."""

    rows: Rows = None
    by: str = "weight"
    mean_heads: bool = False


@dataclass(frozen=True)
class Pool:
    """A request for weights or scores pooled to blocks of `rows` x `keys`: of each the largest is kept.

    picked      the query rows, in whose order blocks are; None for all
    columns     the ascending keys that have a column; None for all
    by          as in `TopK`
    lowest      the smallest is kept instead, of those that are not masked; inf in blocks without any
    """

    rows: int
    keys: int
    picked: Rows = None
    columns: tuple[int, ...] | None = None
    of: str = "weights"
    mean_heads: bool = False
    by: str = "weight"
    lowest: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class Wanted:
    """A request for statistics of the n rows of one layer's attention over m keys; `a | b` asks for both.

    rows            the rows of which per-row numbers are wanted; None for all
    moments         names of numbers of a row: masked, maximum, logsumexp, weight_sum, entropy_nats, distance
                    (sum of weight |i - j|, where query i stands at key i + m - n)
    key_sets        keys of each row `[n, c]`, -1 after a row's last: the weights on them are added up
    vectors         numbers of the keys `[m]`, by which a row's weights are multiplied: weights @ vector
    seen            whether the first and the last key on which a row has any weight are wanted
    output          whether each row's output is
    """

    rows: Rows = None
    moments: tuple[str, ...] = ()
    key_sets: tuple[np.ndarray, ...] = ()
    vectors: tuple[np.ndarray, ...] = ()
    seen: bool = False
    output: bool = False
    tops: tuple[TopK, ...] = ()
    column_sums: tuple[ColumnSums, ...] = ()
    pools: tuple[Pool, ...] = ()

    def __or__(self, other: "Wanted") -> "Wanted":
        rows = self.rows if not other.notes_rows or self.rows == other.rows else None
        names = [x.name for x in fields(self) if x.name not in ("rows", "seen")]
        both = {name: _joined(getattr(self, name), getattr(other, name)) for name in names}
        return Wanted(rows if self.notes_rows else other.rows, seen=self.seen or other.seen, **both)

    @property
    def notes_rows(self) -> bool:
        """True if any number of single rows is wanted, and not only sums over rows or blocks."""
        return any(getattr(self, x.name) for x in fields(self) if x.name not in ("rows", "column_sums", "pools"))

    @property
    def is_nothing(self) -> bool:
        """True if no statistic is wanted."""
        return not self.notes_rows and not self.column_sums and not self.pools

    @property
    def walked_rows(self) -> Sequence[int] | None:
        """The ascending rows whose weights must be computed for this request; None for all."""
        each = [x.rows for x in self.column_sums] + [x.picked for x in self.pools]
        each += [self.rows] if self.notes_rows or not each else []
        known = [rows for rows in each if rows is not None]
        return sorted({row for rows in known for row in rows}) if len(known) == len(each) else None


def _joined(some: Any, more: Any) -> Any:
    if isinstance(some, bool):
        return some or more
    return some + tuple(x for x in more if not any(x is y if isinstance(x, np.ndarray) else x == y for y in some))


class RankedKeys(NamedTuple):
    """The k keys of each row that were asked for, `[h, R, k]` each; key -1, score -inf and weight 0 where it has fewer.

    scores    None where they weren't wanted or are unknown; then keys of weight 0 are -1, too
    measures  where keys are ranked by their share of the row's output, these shares; else None
    """

    weights: Array
    scores: Array | None
    keys: Array
    measures: Array | None = None


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class RowNumbers:
    """Numbers of R rows of h heads, in NumPy; None for what wasn't asked for.

    maximum      the largest score of each row `[h, R]`
    logsumexp    log of the sum of exp(score), with a learned sink's `[h, R]`
    weight_sum   sum of the weights `[h, R]`: 1, less what a learned sink and hidden keys take
    entropy_nats sum of -weight log weight `[h, R]`
    distance     sum of weight |i - j| `[h, R]`, where query i stands at key i + m - n
    key_sums     sums of the weights over each set of keys that was asked for `[h, R, sets]`
    vector_sums  weights @ vector, for each vector of m numbers that was asked for `[h, R, vectors]`
    """

    maximum: Array | None = None
    logsumexp: Array | None = None
    weight_sum: Array | None = None
    entropy_nats: Array | None = None
    distance: Array | None = None
    key_sums: Array | None = None
    vector_sums: Array | None = None


@dataclass(frozen=True, repr=False, eq=False)
class RowStats(RowNumbers):
    """The statistics that `wanted` asks for, over h heads and the R wanted rows.

    A row that may attend to nothing is `masked`, has maximum -inf, logsumexp -inf (or the learned sink's score), and 0
    everywhere else. Where scores are unknown, the logarithms of the weights stand for them.

    masked         whether each row may attend to nothing `[h, R]`
    seen           the first key on which a row of any head has weight, and the one after the last, `[R]` each: m and 0
                   without any
    column_sums    by request the sum over rows for each key `[h, m]` in float64
    pooled         by request the blocks of the matrix `[h, blocks of rows, blocks of keys]`
    output         weights times values `[h, R, e]`
    hidden         weight of each row on keys that the user hid `[h, R]`; None where none are, or no moments are wanted
    """

    wanted: Wanted
    masked: Array | None = None
    seen: tuple[np.ndarray, np.ndarray] | None = None
    tops: dict[TopK, RankedKeys] = field(default_factory=dict)
    column_sums: dict[ColumnSums, Array] = field(default_factory=dict)
    pooled: dict[Pool, Array] = field(default_factory=dict)
    output: Array | None = None
    hidden: Array | None = None

    def on_keys(self, keys: np.ndarray) -> Array:
        """The sum `[h, R]` of each row's weights over `keys`, one of the key sets `[n, c]` that were wanted."""
        assert self.key_sums is not None
        return self.key_sums[..., _place(keys, self.wanted.key_sets)]

    def along(self, vector: np.ndarray) -> Array:
        """The product `[h, R]` of each row's weights with `vector` `[m]`, which is one of those that were wanted."""
        assert self.vector_sums is not None
        return self.vector_sums[..., _place(vector, self.wanted.vectors)]

    def of_rows(self, numbers: Array, rows: Rows) -> Array:
        """The part `[h, len(rows), ...]` of `numbers` `[h, R, ...]`, which are of all R wanted rows."""
        if rows is None or rows == self.wanted.rows:
            return numbers
        return numbers[:, list(rows) if self.wanted.rows is None else np.searchsorted(self.wanted.rows, rows)]


def _place(array: np.ndarray, among: Sequence[np.ndarray]) -> int:
    itself = [at for at, other in enumerate(among) if array is other]
    return itself[0] if itself else next(at for at, other in enumerate(among) if np.array_equal(array, other))
