"""A call with some keys hidden: an attention sink, special tokens, or what a reader doesn't want to see."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields

import numpy as np

from attn_cli.arrays import Array, namespace, to_numpy
from attn_cli.call import AttentionCall, Call
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.masked_cells import lowest_of
from attn_cli.kernel.walk.row_numbers import RowNeeds, RowNumbers
from attn_cli.summaries.calls.derived import DerivedCall


@dataclass
class HiddenWeight:
    """The weight on hidden keys, summed over all rows of all heads that were walked, and the number of these rows."""

    weight: float = 0.0
    rows: int = 0

    @property
    def share(self) -> float:
        """The mean weight of a row on hidden keys; 0 if there was no row."""
        return self.weight / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class HiddenBand(Band):
    """A band in which the cells of hidden keys have weight 0 and the score of masked cells.

    hidden  what each row gives to hidden keys `[h, b]`
    """

    hidden: Array = None


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
        """The sums over rows, by compiled code; None for anything that has to be known of single rows."""
        if not isinstance(self.call, AttentionCall) or not _asks_for_sums_alone(needs):
            return None
        numbers = self.call.row_numbers(needs)
        if numbers is None or numbers.received is None:
            return None
        keys, received = list(self.hidden), np.array(numbers.received)  # [h, m]
        self.weight.weight += float(received[:, keys].sum())
        self.weight.rows += self.h * self.n
        received[:, keys] = 0
        return replace(numbers, received=received)

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
            fields = {field.name: getattr(band, field.name) for field in dataclass_fields(band)}
            yield HiddenBand(**fields, hidden=hidden)


def _asks_for_sums_alone(needs: RowNeeds) -> bool:
    """Whether nothing but the sums over rows is asked for."""
    others = (getattr(needs, field.name) for field in dataclass_fields(needs) if field.name != "received")
    return needs.received and not any(isinstance(other, np.ndarray) or other for other in others)


def hidden_keys(call: Call) -> tuple[int, ...]:
    """The keys of `call` that are hidden, ascending."""
    return call.hidden if isinstance(call, HiddenKeys) else ()


def keys_left(call: Call) -> list[int] | None:
    """The keys of `call` that are not hidden, ascending; None where none is hidden."""
    hidden = set(hidden_keys(call))
    return [key for key in range(call.m) if key not in hidden] if hidden else None
