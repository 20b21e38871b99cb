"""A call without special tokens: [CLS], [SEP], <s> and the like are neither queries nor keys."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from attn_cli.arrays import namespace, to_numpy
from attn_cli.call import Call
from attn_cli.kernel.walk.band import Band
from attn_cli.prompt import Token
from attn_cli.summaries.calls.derived import DerivedCall
from attn_cli.summaries.calls.memo import memoised


@dataclass
class HiddenWeight:
    """The weight on special keys, summed over all rows of all heads that were walked, and the number of these rows."""

    weight: float = 0.0
    rows: int = 0

    @property
    def share(self) -> float:
        """The mean weight of a row on special keys; 0 if there was no row."""
        return self.weight / self.rows if self.rows else 0.0


class _TextTokens(NamedTuple):
    """The tokens that are not special, and their indices among all tokens."""

    places: list[int]
    tokens: tuple[Token, ...]


class WithoutSpecial(DerivedCall):
    """The same call between the tokens that are not special, numbered from 0; weights are unchanged.

    A row's weights then add up to 1 less the weight on special keys, which `hidden` counts. Fit for summaries of single
    weights, such as the largest or sums over queries, not for those of whole rows, such as entropy.
    """

    def __init__(self, call: Call, hidden: HiddenWeight | None = None) -> None:
        super().__init__(call, _text_tokens(call.queries).tokens, _text_tokens(call.keys).tokens)
        self.hidden = HiddenWeight() if hidden is None else hidden

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The bands of the original call without special rows and keys."""
        queries, keys = text_places(self.call.queries), text_places(self.call.keys)
        original_rows = queries if rows is None else [queries[row] for row in rows]
        for band in self.call.bands(rows=original_rows, want_scores=want_scores, in_parts=in_parts):
            first, last = bisect_left(keys, band.first), bisect_left(keys, band.last)
            columns = [key - band.first for key in keys[first:last]]
            weights = band.weights[:, :, columns]
            scores = None if band.raw_scores is None else band.raw_scores[:, :, columns]
            xp = namespace(weights)
            self.hidden.weight += float(to_numpy(xp.sum(band.weights) - xp.sum(weights)))
            self.hidden.rows += weights.shape[0] * weights.shape[1]
            start = bisect_left(queries, band.start)
            shares, joint = (None if x is None else x[:, :, columns] for x in (band.shares, band.joint))
            stop = start + weights.shape[1]
            yield Band(start, stop, first, last, weights, scores, band.output, band.heads, shares, joint)


@memoised
def _text_tokens(tokens: Sequence[Token]) -> _TextTokens:
    """The tokens that are not special, with their places."""
    places = [place for place, token in enumerate(tokens) if not token.special]
    return _TextTokens(places, tuple(tokens[place] for place in places))


def text_places(tokens: Sequence[Token]) -> list[int]:
    """The places of the tokens that are not special.

    >>> text_places([Token(0, "[CLS]", special=True), Token(1, "river"), Token(2, "bank")])
    [1, 2]
    """
    return _text_tokens(tokens).places
