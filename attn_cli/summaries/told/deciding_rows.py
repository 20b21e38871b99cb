"""The attention of the rows that predict an answer: sums over heads by key, and the heaviest keys of every head."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.kernel.stats.wanted import ColumnSums, RowStats, Wanted
from attn_cli.summaries.calls.read_shares import value_norms
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.sinks import special_places
from attn_cli.summaries.text_sinks import text_sinks

_KEYS = 12  # of a head that are kept


@dataclass(frozen=True, eq=False)
class DecidingRows(Part):
    """What each head attends to in the r rows that choose the answer, as means over these rows.

    keys      for each of h heads the k = 12 keys (or all of fewer) of the largest `lengths`, largest first `[h, k]`
    lengths   that weight times the norm of the key's value `[h, k]`; the weights again where values aren't known
    weight    the mean weight on each of m keys, added up over heads `[m]`
    strength  the squares of weight times norm, added up over heads `[m]`: high where a head reads much of one key
    causal    whether attention is causal, so that the first key is a sink, if any is
    """

    name: ClassVar[str] = "deciding_rows"
    together: ClassVar[bool] = True

    rows: tuple[int, ...]
    keys: np.ndarray
    weights: np.ndarray
    lengths: np.ndarray
    weight: np.ndarray
    strength: np.ndarray
    causal: bool = True


def _deciding_queries(call: Call) -> tuple[int, ...]:
    if not call.is_causal:
        return tuple(range(call.n))
    chosen = tuple(place - 1 for place, token in enumerate(call.queries) if token.generated and place > 0)
    return chosen or (call.n - 1,)


class DecidingRowsReducer:
    """Makes `DecidingRows` of a call: what heads attend to in the queries with indices `rows`."""

    def __init__(self, rows: Sequence[int] | None = None) -> None:
        self.picked = rows

    def wanted(self, call: Call) -> Wanted:
        """A request for the sum of weights on each key, over the rows that choose the answer (such as the last)."""
        self.rows = _deciding_queries(call) if self.picked is None else tuple(self.picked)
        self.sums = ColumnSums(self.rows)
        return Wanted(column_sums=(self.sums,))

    def part(self, call: Call, stats: RowStats) -> DecidingRows:
        """For each head the 12 keys of largest weight times value norm, and sums over heads by key."""
        weights = to_numpy(stats.column_sums[self.sums]).astype(np.float64) / max(1, len(self.rows))  # [h, m]
        norms = value_norms(call)
        lengths = weights if norms is None else weights * norms
        keys = np.argsort(-lengths, axis=1, kind="stable")[:, :_KEYS]
        kept, longest = (np.take_along_axis(x, keys, axis=1) for x in (weights, lengths))
        return DecidingRows(self.rows, keys, kept, longest, weights.sum(axis=0), (lengths**2).sum(axis=0),
                            call.is_causal)  # fmt: skip


Seen: TypeAlias = Sequence[tuple[Summary, DecidingRows]]


def resting_keys(seen: Seen) -> set[int]:
    """The keys that heads rest on whatever they say: the first of causal text, special tokens, sinks of the text."""
    (summary, part), first = seen[0], {0} if seen[0][1].causal else set()
    sinks = {sink["key"] for sink in text_sinks(summary for summary, _ in seen)}
    alone = part.rows if len(part.rows) == 1 else ()
    return (first | set(special_places(summary.keys).tolist()) | sinks) - set(alone)


def read_shares(seen: Seen) -> np.ndarray:
    """The share of each of m keys in what the rows that choose the answer read `[m]`, 0 to 1, mean over layers."""
    lengths = [np.sqrt(part.strength) for _, part in seen]
    shares: np.ndarray = np.mean([each / max(each.sum(), np.finfo(float).tiny) for each in lengths], axis=0)
    return shares
