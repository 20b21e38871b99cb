"""A call with some keys hidden: an attention sink, special tokens, or what a reader doesn't want to see."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from attn_cli.arrays import namespace, to_numpy
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.masked_cells import lowest_of
from attn_cli.kernel.stats.wanted import ColumnSums, RowStats, Wanted
from attn_cli.summaries.calls.derived import DerivedCall

_MOST_CELLS = 32  # hidden keys whose weights are noted for every row
_LEAST_LEFT = 1e-3  # of a head's weight
# The wishes that are answered by subtraction, and the moments that are sums over keys; bands answer all others.
_SUBTRACTED = {"moments", "key_sets", "column_sums"}
_SUMS = {"masked", "weight_sum", "entropy_nats", "distance"}


@dataclass
class HiddenWeight:
    """A count of the weight on keys that the user left out, over all rows of all heads so far, and of these rows."""

    weight: float = 0.0
    rows: int = 0

    @property
    def share(self) -> float:
        """The mean weight of a row on the keys that the user left out, 0 to 1; 0 if there was no row."""
        return self.weight / self.rows if self.rows else 0.0


class HiddenKeys(DerivedCall):
    """One layer's attention with the keys `hidden` (ascending) left out of what is shown; other weights are unchanged.

    A row then adds to 1 less what it gives to these keys, which `weight` counts.
    """

    def __init__(self, call: Call, hidden: Sequence[int], weight: HiddenWeight | None = None) -> None:
        super().__init__(call, call.queries, call.keys)
        self.hidden = tuple(hidden)
        self.weight = HiddenWeight() if weight is None else weight

    def device_stats(self, wanted: Wanted) -> RowStats:
        """The wanted statistics of its rows, without the hidden keys."""
        stats = self.by_subtraction(self.call, wanted) if isinstance(self.call, AttentionCall) else None
        return super().device_stats(wanted) if stats is None else stats

    def by_subtraction(self, call: AttentionCall, wanted: Wanted) -> RowStats | None:
        """The statistics of all rows by compiled code over all keys of `call`, less the part of the hidden keys."""
        if not self.hidden or not _is_simple(wanted) or (wanted.notes_rows and len(self.hidden) > _MOST_CELLS):
            return None
        hidden, left = np.array(self.hidden), np.ones(self.m, np.float32)
        left[hidden] = 0
        asked = wanted
        if wanted.notes_rows:
            asked |= Wanted(key_sets=tuple(np.full((self.n, 1), key) for key in self.hidden), vectors=(left,))
        stats = call.compiled_stats(asked)
        if stats is None:
            return None
        stats = stats.in_numpy
        sums = {each: x * left for each, x in stats.column_sums.items()}
        if not wanted.notes_rows:
            whole = stats.column_sums.get(ColumnSums())
            if whole is None:
                return None
            self._count(float(whole[:, hidden].sum()))
            return replace(stats, column_sums=sums)
        assert stats.key_sums is not None and stats.vector_sums is not None
        weight_sum = stats.vector_sums[..., 0].astype(np.float64)  # [h, n]
        if float(weight_sum.mean(axis=1).min(initial=1.0)) < _LEAST_LEFT:
            return None
        on_hidden = stats.key_sums[..., len(wanted.key_sets) :].astype(np.float64)  # [h, n, hidden]
        self._count(float(on_hidden.sum()))
        own = [np.where(np.isin(keys[:, 0], hidden), 0, stats.on_keys(keys)) for keys in wanted.key_sets]
        far = np.abs(np.arange(self.n)[:, None] + self.m - self.n - hidden)
        return replace(
            stats,
            wanted=wanted,
            weight_sum=weight_sum,
            hidden=on_hidden.sum(axis=-1),
            entropy_nats=_less(stats.entropy_nats, -_times_log(on_hidden)),
            distance=_less(stats.distance, on_hidden * far),
            key_sums=np.stack(own, axis=-1) if own else None,
            vector_sums=None,
            column_sums=sums,
        )

    def _count(self, weight: float) -> None:
        self.weight.weight += weight
        self.weight.rows += self.h * self.n

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The weights some adjacent rows at a time (a band), of all rows or of `rows`, 0 in the hidden columns."""
        for band in self.call.bands(rows=rows, want_scores=want_scores, in_parts=in_parts):
            weights, scores = band.weights, band.raw_scores
            hidden = 0 * namespace(weights).sum(weights[:, :, :1], axis=-1)  # [h, b]
            for column in (key - band.first for key in self.hidden if band.first <= key < band.last):
                hidden = hidden + weights[:, :, column]
                for cells in (weights, band.shares, band.joint):
                    if cells is not None:
                        cells[:, :, column] = 0
                if scores is not None:
                    scores[:, :, column] = lowest_of(scores)
            self.weight.weight += float(to_numpy(namespace(hidden).sum(hidden)))
            self.weight.rows += weights.shape[0] * weights.shape[1]
            yield replace(band, hidden=hidden)


def _is_simple(wanted: Wanted) -> bool:
    others = [x.name for x in fields(wanted) if getattr(wanted, x.name) != x.default and x.name not in _SUBTRACTED]
    of_sums = {*wanted.moments} <= _SUMS
    return not others and of_sums and all(keys.shape[1] == 1 for keys in wanted.key_sets)


def _less(sums: np.ndarray | None, of_hidden: np.ndarray) -> np.ndarray | None:
    return None if sums is None else sums.astype(np.float64) - of_hidden.sum(axis=-1)


def _times_log(weights: np.ndarray) -> np.ndarray:
    return weights * np.log(weights, out=np.zeros_like(weights), where=weights > 0)


def hidden_keys(call: Call) -> tuple[int, ...]:
    """The indices of the keys of `call` that the user left out, for all queries, ascending; () for none."""
    return call.hidden if isinstance(call, HiddenKeys) else ()


def keys_left(call: Call) -> list[int] | None:
    """The indices of the keys of `call` that the user didn't leave out, ascending; None where none is left out."""
    hidden = set(hidden_keys(call))
    return [key for key in range(call.m) if key not in hidden] if hidden else None
