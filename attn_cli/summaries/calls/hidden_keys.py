"""A call with some keys hidden: an attention sink, special tokens, or what a reader doesn't want to see."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from attn_cli.arrays import namespace, to_numpy
from attn_cli.call import Call
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.masked_cells import lowest_of
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.calls.derived import DerivedCall
from attn_cli.summaries.reduce import Part, Reducer, reduce


class HiddenKeys(DerivedCall):
    """One layer's attention without the keys `hidden` (ascending); a row adds to 1 less what it gives to these."""

    def __init__(self, call: Call, hidden: Sequence[int], count: list[tuple[int, float]] | None = None) -> None:
        super().__init__(call, call.queries, call.keys)
        self.hidden = tuple(hidden)
        self.count = [] if count is None else count  # of rows, and the weight that they had on hidden keys

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The weights some adjacent rows at a time (a band), of all rows or of `rows`, 0 in the hidden columns."""
        for band in self.call.bands(rows=rows, want_scores=want_scores, in_parts=in_parts):
            weights, scores = band.weights, band.raw_scores
            hidden = 0 * namespace(weights).sum(weights[:, :, :1], axis=-1)  # [h, b]
            blank = tuple(key - band.first for key in self.hidden if band.first <= key < band.last)
            for column in blank:
                hidden = hidden + weights[:, :, column]
                weights[:, :, column] = 0
                if scores is not None:
                    scores[:, :, column] = lowest_of(scores)
            self.count.append((weights.shape[0] * weights.shape[1], float(to_numpy(namespace(hidden).sum(hidden)))))
            yield replace(band, hidden=hidden, blank=blank)


def of_whole_call(reducer: Reducer, call: Call) -> Reducer:
    """The reducer itself where the user left no key of `call` out; else one that makes the same from all keys."""
    return _OfWholeCall(reducer) if isinstance(call, HiddenKeys) else reducer


class _OfWholeCall:
    """Makes a reducer's part of a call with the keys that were left out put back; that takes a pass of its own."""

    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer

    def wanted(self, call: Call) -> Wanted:
        return Wanted()

    def part(self, call: Call, stats: RowStats) -> Part:
        assert isinstance(call, HiddenKeys)
        return reduce(call.call, self.reducer).parts[0]
