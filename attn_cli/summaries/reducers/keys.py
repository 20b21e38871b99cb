"""The keys that queries attend to: of each query the heaviest, of all together, and what every key receives."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.kernel.stats.topk import heaviest
from attn_cli.kernel.stats.wanted import ColumnSums, RowStats, TopK, Wanted
from attn_cli.prompt import Token
from attn_cli.summaries.calls.read_shares import By, value_norms
from attn_cli.summaries.reduce import Part, Reducer, Summary
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer
from attn_cli.summaries.reducers.matrix import MatrixOf

MANY_ROWS = 64  # queries; of more a screen has no room for the keys of each
_KEYS = 12  # of a head that are kept of deciding rows
_ARRAYS = {"weight": "weights", "score": "scores"}  # their names in files of arrays


@dataclass(frozen=True, eq=False)
class KeyNumbers(Part):
    """Numbers of k keys by head, each by its name: `[h, r, k]` for each of r queries, `[h, k]` for all together."""

    weight: ClassVar[str] = "received_share"
    ranked: ClassVar[bool] = True

    numbers: Mapping[str, np.ndarray | None]
    keys: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # heaviest first, -1 for none
    rows: tuple[int, ...] = ()
    averaged: int = 0  # how many heads the numbers are a mean over (then h = 1); 0 for single heads
    by: By = "weight"  # what ranks the keys

    @property
    def weights(self) -> np.ndarray:
        """The weight on each key, a mean over queries where these are together; 0 where masked."""
        weights = self.numbers[self.weight]
        assert weights is not None
        return weights

    @property
    def shares(self) -> np.ndarray | None:
        """By value or by output each key's part of the row's sum of these, 0 to 1; None by weight."""
        return self.numbers.get(f"{self.by}_share")

    @property
    def measured(self) -> np.ndarray:
        """The number that ranks the keys, 0 to 1: the weight or the share."""
        return self.weights if self.shares is None else self.shares

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head, query (unless together) and key that isn't hidden: both with their tokens, and numbers."""
        by_query, hidden = self.weights.ndim == 3, set(summary.hidden)
        every = np.arange(self.weights.shape[-1]) if not self.ranked else self.keys if by_query else self.keys[:, None]
        every = np.broadcast_to(every, (len(self.weights), len(self.rows) if by_query else 1, self.weights.shape[-1]))
        numbers = [x if x is None or by_query else x[:, None] for x in self.numbers.values()]
        values = [None if x is None else x.tolist() for x in numbers]
        for at, head in enumerate(summary.head_names(self.averaged)):
            for row, keys in enumerate(every[at].tolist()):
                lead: dict[str, Any] = {"layer": summary.place.layer, "head": head}
                if by_query:
                    lead |= {"query": self.rows[row], "query_token": summary.queries[self.rows[row]].text}
                for rank, key in enumerate(keys):
                    if key >= 0 and (self.ranked or key not in hidden):
                        place = {"rank": rank} if self.ranked else {}
                        place |= {"key": key, "key_token": summary.keys[key].text}
                        cells = (None if x is None else x[at][row][rank] for x in values)
                        yield lead | place | dict(zip(self.numbers, cells, strict=True))

    def arrays(self) -> dict[str, np.ndarray]:
        """`keys`, -1 for none, and the numbers by name, heads first."""
        named = {_ARRAYS.get(name, name): values for name, values in self.numbers.items()}
        keys = {"keys": self.keys} if self.ranked else {}
        return keys | {name: values for name, values in named.items() if values is not None}

    def labels(self) -> dict[str, np.ndarray]:
        """`queries` `[r]`, the indices of the queries that were picked."""
        return {"queries": np.array(self.rows)} if self.ranked else {}


class Top(KeyNumbers):
    """For r queries their k heaviest keys, with weights and scores `[h, r, k]`; scores are None if not collected."""

    name, weight = "top", "weight"


@dataclass(frozen=True, eq=False)
class Overall(KeyNumbers):
    """The k keys that receive most of what r queries give, by mean weight `[h, k]`; equal ones rank by number."""

    name: ClassVar[str] = "overall"

    abridged: bool = False

    @property
    def footnote(self) -> str:
        """The caption that names the option for single queries where these were too many to show; else ""."""
        return "too many queries to show each: --token picks some, -f jsonl has all" if self.abridged else ""


class Received(KeyNumbers):
    """The mean weight that each of m keys receives `[h, m]`; a head's add to 1, less a sink's and masked rows'."""

    name, together, ranked = "received", True, False


def mean_received(parts: Sequence[Received]) -> np.ndarray:
    """The mean over all heads of some calls of what each key receives `[m]`, itself a mean over rows."""
    return np.asarray(np.mean([part.measured.mean(axis=0) for part in parts], axis=0))


class TopKeys:
    """Makes `Top` of a call: the `count` heaviest keys of rows; by shares the call is a `ReadShares`."""

    def __init__(
        self,
        count: int,
        *,
        rows: Sequence[int] | None = None,
        mean_heads: bool = False,
        scores: bool = True,
        by: By = "weight",
    ) -> None:
        self.rows = None if rows is None else tuple(rows)
        self.ranking = TopK(count, mean_heads, by, scores)

    def wanted(self, call: Call) -> Wanted:
        """A request for the `count` largest weights of each picked row."""
        return Wanted(rows=self.rows, tops=(self.ranking,))

    def part(self, call: Call, stats: RowStats) -> Top:
        """The `count` heaviest keys of each picked row, with weights, and where collected scores and shares."""
        weights, scores, keys, shares = (
            None if x is None else to_numpy(stats.of_rows(x, self.rows)) for x in stats.tops[self.ranking]
        )
        assert weights is not None and keys is not None
        if scores is None:  # then an underflow can't be told from a key that is masked
            keys = np.where(weights == 0, -1, keys)
        by: Any = self.ranking.by
        numbers = {"score": scores, "weight": weights} | ({} if shares is None else {f"{by}_share": shares})
        rows = tuple(range(call.n)) if self.rows is None else self.rows
        return Top(numbers, keys, rows, call.h if self.ranking.mean_heads else 0, by)


class ReceivedShares:
    """Makes `Received` of a call: what keys receive from all queries, or `rows`; by shares it is a `ReadShares`."""

    def __init__(self, rows: Sequence[int] | None = None, *, by: By = "weight", mean_heads: bool = False) -> None:
        self.rows = None if rows is None else tuple(rows)
        self.by, self.mean_heads = by, mean_heads
        self.weights = ColumnSums(self.rows)
        self.measured = None if by == "weight" else ColumnSums(self.rows, by, mean_heads)

    def wanted(self, call: Call) -> Wanted:
        """A request for the sums over rows of the weights on each key."""
        return Wanted(column_sums=(self.weights,) if self.measured is None else (self.weights, self.measured))

    def part(self, call: Call, stats: RowStats) -> KeyNumbers:
        """The mean weight on each key over the rows."""
        count = max(1, call.n if self.rows is None else len(self.rows))
        shares = to_numpy(stats.column_sums[self.weights]) / count
        numbers = {"received_share": shares.mean(axis=0, keepdims=True) if self.mean_heads else shares}
        if self.measured is not None:
            numbers[f"{self.by}_share"] = to_numpy(stats.column_sums[self.measured]) / count
        return Received(numbers, averaged=call.h if self.mean_heads else 0, by=self.by)


class OverallKeys(ReceivedShares):
    """Makes `Overall` of a call: the `count` keys that rows attend to most; `abridged` where these are too many."""

    def __init__(self, count: int, *, abridged: bool = False, **how: Any) -> None:
        super().__init__(**how)
        self.count, self.abridged = count, abridged

    def part(self, call: Call, stats: RowStats) -> Overall:
        """The `count` keys of largest mean over the rows, largest first."""
        received = super().part(call, stats)
        keys = heaviest(received.measured, min(self.count, call.m))[1]
        numbers = {name: np.take_along_axis(x, keys, axis=-1) for name, x in received.numbers.items() if x is not None}
        keys[np.take_along_axis(received.measured, keys, axis=-1) == 0] = -1
        rows = tuple(range(call.n)) if self.rows is None else self.rows
        return Overall(numbers, keys, rows, received.averaged, self.by, self.abridged)


@dataclass(frozen=True, eq=False)
class DecidingRows(Part):
    """What r rows that decide attend to, as means over them; of each head alone over those that choose the answer."""

    name: ClassVar[str] = "deciding_rows"
    together: ClassVar[bool] = True

    rows: tuple[int, ...]
    keys: np.ndarray  # of the 12 largest lengths, largest first `[h, 12]`
    weights: np.ndarray
    lengths: np.ndarray  # weight times value norm; the weights where values aren't known
    weight: np.ndarray  # added up over heads `[m]`
    strength: np.ndarray  # squares of weight times norm, added up over heads `[m]`
    causal: bool = True  # then the first key is a sink, if any is
    count: int = 6  # keys that a screen shows


def whole_row(queries: Sequence[Token]) -> int | None:
    """The row that reads an image as a whole, that of [CLS]; None where the first token is no such."""
    return 0 if queries and queries[0].special and any(token.row is not None for token in queries) else None


def _deciding_queries(call: Call) -> tuple[int, ...]:
    if not call.is_causal:
        row = whole_row(call.queries)
        return tuple(range(call.n)) if row is None else (row,)
    chosen = tuple(place - 1 for place, token in enumerate(call.queries) if token.generated and place > 0)
    return chosen or (call.n - 1,)


class DecidingRowsReducer:
    """Makes `DecidingRows` of a call: what the queries `rows` attend to, each head in those `choosing` the answer."""

    def __init__(self, rows: Sequence[int] | None = None, count: int = 6, choosing: Sequence[int] = ()) -> None:
        self.picked, self.count, self.choosing = rows, count, choosing

    def wanted(self, call: Call) -> Wanted:
        """A request for the sum of weights on each key, over the rows that choose the answer (such as the last)."""
        self.rows = _deciding_queries(call) if self.picked is None else tuple(self.picked)
        self.sums = ColumnSums(self.rows), ColumnSums(tuple(self.choosing) or self.rows)
        return Wanted(column_sums=self.sums)

    def part(self, call: Call, stats: RowStats) -> DecidingRows:
        """For each head the 12 keys of largest weight times value norm, and sums over heads by key."""
        sums = [to_numpy(stats.column_sums[of]) / max(1, len(of.rows or ())) for of in self.sums]  # [h, m]
        norms = value_norms(call)
        every, lengths = sums if norms is None else [weights * norms for weights in sums]
        keys = np.argsort(-lengths, axis=1, kind="stable")[:, :_KEYS]
        kept, longest = (np.take_along_axis(x, keys, axis=1) for x in (sums[1], lengths))
        together = sums[0].sum(axis=0), (every**2).sum(axis=0)
        return DecidingRows(self.rows, keys, kept, longest, *together, call.is_causal, self.count)


@dataclass(frozen=True)
class RowKeys:
    """Makes the reducers of the keys that rows attend to most: of each row, of all together, or over all heads."""

    count: int
    mean_heads: bool = False
    by: By = "weight"
    scores: bool = True
    together: bool = False  # rows are ranked together
    abridges: bool = False  # for a screen: so are more than 64 queries; an image has a row, with all of its weights
    all_heads: bool = False  # in the picked rows, or those that choose the next token

    def __call__(self, rows: Sequence[int] | None, call: Call) -> Sequence[Reducer]:
        """The reducers for these rows of a call, None for all."""
        if self.all_heads:
            return [DecidingRowsReducer(rows, self.count), HeadKindsReducer()] if rows is None or len(rows) else []
        row = None if call.is_causal or not self.abridges else whole_row(call.queries)
        rows = [row] if rows is None and row is not None else rows
        how: Any = {"rows": rows, "mean_heads": self.mean_heads, "by": self.by}
        if self.together or (self.abridges and rows is None and call.n > MANY_ROWS):
            return [OverallKeys(self.count, abridged=not self.together, **how)]
        top = TopKeys(self.count, scores=self.scores, **how)
        is_drawn = self.abridges and rows and len(rows) == 1 and any(key.row is not None for key in call.keys)
        return [top, MatrixOf(kinds=("weights" if self.by == "weight" else "shares",), **how)] if is_drawn else [top]
