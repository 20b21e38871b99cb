"""A call with some keys hidden: an attention sink, special tokens, or what a reader doesn't want to see."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields

import numpy as np

from attn_cli.arrays import namespace, to_numpy
from attn_cli.call import AttentionCall, Call
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.masked_cells import lowest_of
from attn_cli.kernel.walk.row_numbers import RowNeeds, RowNumbers
from attn_cli.summaries.calls.derived import DerivedCall

_MOST_CELLS = 32  # hidden keys whose weights are noted for every row
_LEAST_LEFT = 1e-3  # of a head's weight


@dataclass
class HiddenWeight:
    """The weight on hidden keys, summed over all rows of all heads that were walked, and the number of these rows."""

    weight: float = 0.0
    rows: int = 0

    @property
    def share(self) -> float:
        """The mean weight of a row on hidden keys; 0 if there was no row."""
        return self.weight / self.rows if self.rows else 0.0


class HiddenKeys(DerivedCall):
    """The same call without some of its keys, under the same numbers.

    hidden  the keys, ascending
    weight  counts the weight that is hidden

    The weights of the other keys stay: a row adds to 1 less what it gives to hidden keys. Divided by their sum they are
    the softmax over the keys left.
    """

    def __init__(self, call: Call, hidden: Sequence[int], weight: HiddenWeight | None = None) -> None:
        super().__init__(call, call.queries, call.keys)
        self.hidden = tuple(hidden)
        self.weight = HiddenWeight() if weight is None else weight

    def row_numbers(self, needs: RowNeeds) -> RowNumbers | None:
        """Sums over rows, moments and cells, by compiled code; None for anything else, and where too little is left.

        What rows leave to keys that are not hidden is summed, and not what hidden keys leave of 1. Entropies and
        distances come by subtraction: where a head leaves less than a thousandth, bands say them exactly.
        """
        if not isinstance(self.call, AttentionCall) or not self.hidden or not _is_simple(needs):
            return None
        hidden, n = np.array(self.hidden), self.n
        if not needs.moments and needs.cells is None:
            numbers = self.call.row_numbers(needs)
            if numbers is None or numbers.received is None:
                return None
            self._count(float(numbers.received[:, hidden].sum()))
            return replace(numbers, received=self._zeroed(numbers.received))
        if len(hidden) > _MOST_CELLS:
            return None
        asked = np.full((n, 0), -1) if needs.cells is None else needs.cells
        left = np.ones((1, self.m))
        left[:, hidden] = 0
        cells = np.concatenate([asked, np.tile(hidden, (n, 1))], axis=1)
        numbers = self.call.row_numbers(replace(needs, cells=cells, marks=left))
        if numbers is None or numbers.cells is None or numbers.mark_sums is None:
            return None
        mass = numbers.mark_sums[..., 0].astype(np.float64)  # [h, n]
        if float(mass.mean(axis=1).min(initial=1.0)) < _LEAST_LEFT:
            return None
        on_hidden = numbers.cells[..., asked.shape[1] :].astype(np.float64)  # [h, n, hidden]
        self._count(float(on_hidden.sum()))
        own = np.where(np.isin(asked, hidden), 0, numbers.cells[..., : asked.shape[1]])
        return replace(
            numbers,
            mass=mass,
            hidden=on_hidden.sum(axis=-1),
            surprise=_less(numbers.surprise, -_times_log(on_hidden)),
            distance=_less(numbers.distance, on_hidden * np.abs(np.arange(n)[:, None] + self.m - n - hidden)),
            cells=own,
            received=None if numbers.received is None else self._zeroed(numbers.received),
        )

    def _count(self, weight: float) -> None:
        """Count the weight that all rows of all heads give to hidden keys."""
        self.weight.weight += weight
        self.weight.rows += self.h * self.n

    def _zeroed(self, received: np.ndarray) -> np.ndarray:
        """What keys receive `[h, m]`, with 0 for hidden ones."""
        received = np.array(received)
        received[:, list(self.hidden)] = 0
        return received

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The bands of the original call, changed in place."""
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


def _is_simple(needs: RowNeeds) -> bool:
    """Whether nothing but sums over rows, moments and cells is asked for."""
    simple = ("moments", "cells", "received")
    others = (getattr(needs, field.name) for field in dataclass_fields(needs) if field.name not in simple)
    return not any(isinstance(other, np.ndarray) or other for other in others)


def _less(sums: np.ndarray | None, of_hidden: np.ndarray) -> np.ndarray | None:
    """Sums over all keys `[h, n]` without those of hidden ones `[h, n, hidden]`."""
    return None if sums is None else sums.astype(np.float64) - of_hidden.sum(axis=-1)


def _times_log(weights: np.ndarray) -> np.ndarray:
    """w log w, 0 for 0."""
    return weights * np.log(weights, out=np.zeros_like(weights), where=weights > 0)


def hidden_keys(call: Call) -> tuple[int, ...]:
    """The keys of `call` that are hidden, ascending."""
    return call.hidden if isinstance(call, HiddenKeys) else ()


def keys_left(call: Call) -> list[int] | None:
    """The keys of `call` that are not hidden, ascending; None where none is hidden."""
    hidden = set(hidden_keys(call))
    return [key for key in range(call.m) if key not in hidden] if hidden else None
