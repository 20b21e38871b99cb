"""Numbers of every row of a call: what a reader can ask of the compiled walk, and what it notes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attn_cli.kernel.stats.wanted import Pool

MOMENTS = ("maximum", "log_sum", "mass", "surprise", "distance")
MOST_TOP = 64  # largest weights of a row


class NotedRows(NamedTuple):
    """Where the numbers of rows are noted: row i's at `places[i]` `[n]`, -1 for nowhere, among `total` places."""

    places: np.ndarray
    total: int


@dataclass(frozen=True, eq=False)
class RowNeeds:
    """What is asked of every row of weights.

    moments   the fields of `RowNumbers` from `maximum` to `distance`
    cells     key numbers `[n, c]`, -1 for none, whose weights are wanted
    lists     lists of key numbers `[n, c]`, -1 after the last of a row, over each of which weights are added up
    marks     numbers of keys `[r, m]`, with which weights are multiplied and added up
    received  the column sums
    few       of rows that may attend to fewer keys, the column sums apart; 0: not wanted
    top       how many of the largest weights of a row, at most 64
    pool      blocks of the matrix
    steps     ascending places, counted from the query's own key, at which stretches of keys begin and the last ends
              `[stretches + 1]`; the weights on each stretch are added up
    rows      the ascending rows that are noted, which cells and lists name among all n; None for all
    means     whether `top` and `pool` are of the mean over all heads, not of every head
    noted     where rows are noted, in place of `rows`; for compiled code of processors alone
    """

    moments: bool = False
    cells: np.ndarray | None = None
    lists: tuple[np.ndarray, ...] = ()
    marks: np.ndarray | None = None
    received: bool = False
    few: int = 0
    top: int = 0
    pool: Pool | None = None
    steps: np.ndarray | None = None
    rows: tuple[int, ...] | None = None
    means: bool = False
    noted: NotedRows | None = None

    def __or__(self, other: "RowNeeds") -> "RowNeeds | None":
        """Both at once; None where only one of two different wishes can be met."""
        singles = [(x.pool, x.cells, x.lists or None, x.marks, x.steps, x.few or None) for x in (self, other)]
        if any(one is not None and another is not None for one, another in zip(*singles, strict=True)):
            return None
        if not self._suits(other):
            return None
        return RowNeeds(
            self.moments or other.moments,
            other.cells if self.cells is None else self.cells,
            self.lists or other.lists,
            other.marks if self.marks is None else self.marks,
            self.received or other.received,
            self.few or other.few,
            max(self.top, other.top),
            self.pool or other.pool,
            other.steps if self.steps is None else self.steps,
            self.rows if self.rows == other.rows else None,
            self.means or other.means,
        )

    def _suits(self, other: "RowNeeds") -> bool:
        """Whether sums over rows are of the same rows, and what is ranked of the same heads."""
        sums = [x.received or x.few > 0 or x.pool is not None for x in (self, other)]
        ranks = [x.top > 0 or x.pool is not None for x in (self, other)]
        return (self.rows == other.rows or not any(sums)) and (self.means == other.means or not all(ranks))


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """What was noted of every row, None where it was not asked for. A row that may attend to nothing has zeros.

    output       `[h, n, e]`, the memory that was handed in, or None
    maximum      the largest score of a row `[h, n]`; -infinity where there is none
    log_sum      the logarithm of the sum of the exponentials of its scores, with a learned sink's `[h, n]`
    mass         the sum of its weights `[h, n]`: 1, less what a learned sink takes
    surprise     the sum of weight times -log weight `[h, n]`, in nats
    distance     the sum of weight times |i - j| `[h, n]`, where query i stands at key i + m - n
    cells        the weights on the asked keys `[h, n, c]`
    list_sums    the sums of the weights over each list of keys `[h, n, lists]`
    mark_sums    the sums of weight times mark `[h, n, r]`
    step_sums    the sums of the weights over each stretch of keys `[h, n, stretches]`
    received     the sum of the weights on every key `[h, m]`, in float64
    received_few the same `[h, m]` over the rows that may attend to few keys alone
    top_weights  the largest weights `[h, n, k]`, largest first, equal ones by key number; 0 where there are fewer
    top_scores   their scores `[h, n, k]`, -infinity where there are fewer
    top_keys     their keys `[h, n, k]`, -1 where there are fewer
    pooled       `[h, blocks of rows, blocks of keys]`
    hidden       what a row gives to keys that are left out of all sums `[h, n]`
    rows         which rows the n are; None for all

    With `RowNeeds.means` h is 1 in `top_weights`, `top_scores`, `top_keys` and `pooled`.
    """

    output: np.ndarray | None
    maximum: np.ndarray | None = None
    log_sum: np.ndarray | None = None
    mass: np.ndarray | None = None
    surprise: np.ndarray | None = None
    distance: np.ndarray | None = None
    cells: np.ndarray | None = None
    list_sums: np.ndarray | None = None
    mark_sums: np.ndarray | None = None
    step_sums: np.ndarray | None = None
    received: np.ndarray | None = None
    received_few: np.ndarray | None = None
    top_weights: np.ndarray | None = None
    top_scores: np.ndarray | None = None
    top_keys: np.ndarray | None = None
    pooled: np.ndarray | None = None
    hidden: np.ndarray | None = None
    rows: np.ndarray | None = None

    def of_rows(self, name: str, rows: Sequence[int] | None) -> np.ndarray:
        """The numbers of that name of these rows `[h, r, ...]`, of which all were noted; None for all n."""
        numbers: np.ndarray = getattr(self, name)
        return numbers if rows is None or self.rows is not None else numbers[:, list(rows)]

    def among(self, n: int) -> "RowNumbers":
        """The moments and cells of all n rows of the call, 0 in those that were not noted."""
        if self.rows is None:
            return self
        names = [name for name in (*MOMENTS, "cells") if getattr(self, name) is not None]
        whole = {name: np.zeros((len(x), n, *x.shape[2:]), x.dtype) for name in names for x in [getattr(self, name)]}
        for name, x in whole.items():
            x[:, self.rows] = getattr(self, name)
        return RowNumbers(self.output, **whole)
