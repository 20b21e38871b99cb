"""A call without its special tokens: [CLS], [SEP], <s> and the like neither as rows nor as keys."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from attn_cli.arrays import namespace, to_numpy
from attn_cli.call import Call
from attn_cli.kernel.walk.band import Band
from attn_cli.prompt import Token
from attn_cli.summaries.calls.derived import CallAround
from attn_cli.summaries.calls.memo import remembered


@dataclass
class Hidden:
    """How much was hidden: the weight on hidden keys of all rows that were walked, and how many rows these were."""

    weight: float = 0.0
    rows: int = 0

    @property
    def share(self) -> float:
        """The hidden part of a row's weight, on average."""
        return self.weight / self.rows if self.rows else 0.0


class _Left(NamedTuple):
    """The tokens that are left of some, and their places among these."""

    places: list[int]
    tokens: tuple[Token, ...]


class WithoutSpecial(CallAround):
    """The same call, its rows and keys numbered anew; weights stay what they are, so rows add to less than 1.

    For summaries that take weights as they come; a mean over a row would need it whole.
    """

    def __init__(self, call: Call, hidden: Hidden | None = None) -> None:
        super().__init__(call, _left(call.queries).tokens, _left(call.keys).tokens)
        self.hidden = Hidden() if hidden is None else hidden

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The rows that are left, against the keys that are left."""
        left, keys = kept(self.call.queries), kept(self.call.keys)
        asked = left if rows is None else [left[row] for row in rows]
        for band in self.call.bands(rows=asked, want_scores=want_scores, in_parts=in_parts):
            first, last = bisect_left(keys, band.first), bisect_left(keys, band.last)
            columns = [key - band.first for key in keys[first:last]]
            weights = band.weights[:, :, columns]
            scores = None if band.raw_scores is None else band.raw_scores[:, :, columns]
            xp = namespace(weights)
            self.hidden.weight += float(to_numpy(xp.sum(band.weights) - xp.sum(weights)))
            self.hidden.rows += weights.shape[0] * weights.shape[1]
            start = bisect_left(left, band.start)
            yield Band(start, start + weights.shape[1], first, last, weights, scores, band.output, band.heads)


@remembered
def _left(tokens: Sequence[Token]) -> _Left:
    """Those that are not special."""
    places = [place for place, token in enumerate(tokens) if not token.special]
    return _Left(places, tuple(tokens[place] for place in places))


def kept(tokens: Sequence[Token]) -> list[int]:
    """The places of the tokens that are not special.

    >>> kept([Token(0, "[CLS]", special=True), Token(1, "river"), Token(2, "bank")])
    [1, 2]
    """
    return _left(tokens).places
