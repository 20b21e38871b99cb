"""The keys that many queries together attend to most, by mean weight."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.call import Call
from attn_cli.fields import COUNT, SHARE, STREAM, Field, Output, Rows
from attn_cli.kernel.stats.topk import heaviest
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.call_fields import HEAD_OF_MEAN, KEY, KEY_TOKEN, LAYER, LAYERS, SHARE_BY
from attn_cli.summaries.calls.read_shares import By
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.received import ReceivedShares

_KEY = (
    LAYER,
    HEAD_OF_MEAN,
    Field("rank", COUNT, "0 for the key that receives most"),
    KEY,
    KEY_TOKEN,
    Field("received_share", SHARE, "mean weight over all queries, or over those that --token picks"),
)
OVERALL = Field(
    "overall", Rows((STREAM, *_KEY, *SHARE_BY.values()), "one key of one head, that which receives most first")
)
OUTPUT = Output("attn.overall/2", "The keys that many queries together attend to most.", (LAYERS, OVERALL))


@dataclass(frozen=True, eq=False)
class Overall(Part):
    """The k keys that receive most of what r queries give, most first: keys and shares `[h, k]`.

    A share is the mean weight over those queries; equal shares rank by key number. The place of a key that receives
    nothing holds -1.

    averaged  how many heads the shares are a mean over (then h = 1); 0 for single heads
    by        what ranks the keys: "weight", or "value" or "output", the weight times the norm of the value (after W_O)
    read      `[h, k]`, by value or by output each key's share of these in a row, mean over the queries; None by weight
    """

    name: ClassVar[str] = "overall"

    rows: tuple[int, ...]
    keys: np.ndarray
    shares: np.ndarray
    averaged: int = 0
    abridged: bool = False
    by: By = "weight"
    read: np.ndarray | None = None

    @property
    def measured(self) -> np.ndarray:
        """The number that ranks the k keys of a head `[h, k]`, 0 to 1, a mean over queries: the weight or the share."""
        return self.shares if self.read is None else self.read

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head and rank from 0: layer, head, rank, key, key_token and received_share, the mean weight."""
        columns = {} if self.read is None else {f"{self.by}_share": self.read}
        names = [*(one.name for one in _KEY), *columns]
        for at, head in enumerate(summary.head_names(self.averaged)):
            for rank, key in enumerate(self.keys[at].tolist()):
                if key >= 0:
                    numbers = (float(values[at, rank]) for values in (self.shares, *columns.values()))
                    cell = (summary.place.layer, head, rank, key, summary.keys[key].text)
                    yield dict(zip(names, (*cell, *numbers), strict=True))

    def arrays(self) -> dict[str, np.ndarray]:
        """The k keys of each head that receive most, and their shares by name, `[h, k]` each."""
        named = {"keys": self.keys, "received_share": self.shares, f"{self.by}_share": self.read}
        return {name: values for name, values in named.items() if values is not None}

    @property
    def footnote(self) -> str:
        """The caption that names the option for single queries where these were too many to show; else ""."""
        return "too many queries to show each: --token picks some, -f jsonl has all" if self.abridged else ""

    def labels(self) -> dict[str, np.ndarray]:
        """`queries` `[r]`, the indices of the r queries over which the means are taken."""
        return {"queries": np.array(self.rows)}


class OverallKeys:
    """Makes `Overall` of a call: the `count` keys that rows attend to most; by shares it is a `ReadShares`."""

    reads_tensors: ClassVar[bool] = True

    def __init__(
        self,
        count: int,
        *,
        rows: Sequence[int] | None = None,
        mean_heads: bool = False,
        abridged: bool = False,
        by: By = "weight",
    ) -> None:
        self.count, self.mean_heads, self.abridged = count, mean_heads, abridged
        self.received = ReceivedShares(rows, by=by, mean_heads=mean_heads)

    def wanted(self, call: Call) -> Wanted:
        """A request for the sums over rows of the weights on each key."""
        return self.received.wanted(call)

    def part(self, call: Call, stats: RowStats) -> Overall:
        """The `count` keys of largest mean over the rows, largest first."""
        received = self.received.part(call, stats)
        measured = received.measured
        keys = heaviest(measured, min(self.count, call.m))[1]
        shares = np.take_along_axis(received.shares, keys, axis=-1)
        read = None if received.read is None else np.take_along_axis(received.read, keys, axis=-1)
        keys[np.take_along_axis(measured, keys, axis=-1) == 0] = -1
        averaged = call.h if self.mean_heads else 0
        rows = tuple(range(call.n)) if self.received.rows is None else self.received.rows
        return Overall(rows, keys, shares, averaged, self.abridged, received.by, read)
