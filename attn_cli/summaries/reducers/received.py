"""The attention that each key receives: column sums of the weights."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.fields import SHARE, STREAM, Field, Rows
from attn_cli.kernel.stats.wanted import ColumnSums, RowStats, Wanted
from attn_cli.summaries.call_fields import HEAD, KEY, KEY_TOKEN, LAYER, SHARE_BY
from attn_cli.summaries.calls.read_shares import By
from attn_cli.summaries.reduce import Part, Summary

_ROW = (
    STREAM,
    LAYER,
    HEAD,
    KEY,
    KEY_TOKEN,
    Field(
        "received_share",
        SHARE,
        "column sum of the weights over n; the shares of a head add to 1, less a sink's, hidden keys' and masked rows'",
    ),
    *SHARE_BY.values(),
)
RECEIVED = Field("received", Rows(_ROW, "how much of a head's attention one key gets"))


@dataclass(frozen=True, eq=False)
class Received(Part):
    """What each key receives of all attention, `[h, m]`: the mean weight on it over n queries.

    A head's numbers add to 1, less a learned sink's part and masked rows. Under a causal mask early keys receive more.

    by    the measure of a key: "weight", or "value" or "output", weight times norm of the value (after W_O)
    read  each key's share of that measure in a row's sum, mean over the queries `[h, m]`; None by weight
    """

    name: ClassVar[str] = "received"
    together: ClassVar[bool] = True

    shares: np.ndarray
    by: By = "weight"
    read: np.ndarray | None = None

    @property
    def measured(self) -> np.ndarray:
        """What each key receives `[h, m]`, 0 to 1: the mean over all n queries of its weight, 0 where masked."""
        return self.shares if self.read is None else self.read

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head and key that isn't hidden: layer, head, key, key_token and received_share, 0 to 1."""
        hidden = set(summary.hidden)
        for at, head in enumerate(summary.place.heads):
            for key, token in enumerate(summary.keys):
                if key in hidden:
                    continue
                measured = {} if self.read is None else {f"{self.by}_share": float(self.read[at, key])}
                yield {
                    "layer": summary.place.layer,
                    "head": head,
                    "key": key,
                    "key_token": token.text,
                    "received_share": float(self.shares[at, key]),
                } | measured

    def arrays(self) -> dict[str, np.ndarray]:
        """`received_share` `[h, m]`, the mean weight on each key, and `value_share` or `output_share` by these."""
        measured = {} if self.read is None else {f"{self.by}_share": self.read}
        return {"received_share": self.shares} | measured


def mean_received(parts: Sequence[Received]) -> np.ndarray:
    """The mean over all heads of some calls of what each key receives `[m]`, itself a mean over rows."""
    return np.asarray(np.mean([part.measured.mean(axis=0) for part in parts], axis=0))


class ReceivedShares:
    """Makes `Received` of a call: what keys receive from all queries, or `rows`; by shares it is a `ReadShares`."""

    reads_tensors: ClassVar[bool] = True

    def __init__(self, rows: Sequence[int] | None = None, *, by: By = "weight", mean_heads: bool = False) -> None:
        self.rows = None if rows is None else tuple(rows)
        self.by, self.mean_heads = by, mean_heads
        self.weights = ColumnSums(self.rows)
        self.measured = None if by == "weight" else ColumnSums(self.rows, by, joint=mean_heads)

    def wanted(self, call: Call) -> Wanted:
        """A request for the sums over rows of the weights on each key."""
        return Wanted(column_sums=(self.weights,) if self.measured is None else (self.weights, self.measured))

    def part(self, call: Call, stats: RowStats) -> Received:
        """The mean weight on each key over the rows."""
        count = max(1, call.n if self.rows is None else len(self.rows))
        shares = to_numpy(stats.column_sums[self.weights]) / count
        read = None if self.measured is None else to_numpy(stats.column_sums[self.measured]) / count
        shares = shares.mean(axis=0, keepdims=True) if self.mean_heads else shares
        return Received(shares, self.by, read)
