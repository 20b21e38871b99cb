"""A call without its special tokens: [CLS], [SEP], <s> and the like neither as rows nor as keys."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from attn_cli.arrays import Array, namespace, to_numpy
from attn_cli.call import Call, Place, Token
from attn_cli.kernel.bands import Band
from attn_cli.kernel.rule import Rule


@dataclass
class Hidden:
    """How much was hidden: the weight on hidden keys of all rows that were walked, and how many rows these were."""

    weight: float = 0.0
    rows: int = 0

    @property
    def share(self) -> float:
        """The hidden part of a row's weight, on average."""
        return self.weight / self.rows if self.rows else 0.0


@dataclass(frozen=True, eq=False)
class WithoutSpecial:
    """The same call, its rows and keys numbered anew; weights stay what they are, so rows add to less than 1.

    For summaries that take weights as they come; a mean over a row would need it whole.
    """

    call: Call
    hidden: Hidden = field(default_factory=Hidden)

    @property
    def place(self) -> Place:
        """Where the call is."""
        return self.call.place

    @property
    def rule(self) -> Rule:
        """How scores become weights, over all keys."""
        return self.call.rule

    @property
    def queries(self) -> tuple[Token, ...]:
        """The rows that are left."""
        return tuple(self.call.queries[row] for row in kept(self.call.queries))

    @property
    def keys(self) -> tuple[Token, ...]:
        """The keys that are left."""
        return tuple(self.call.keys[key] for key in kept(self.call.keys))

    @property
    def h(self) -> int:
        """The number of query heads."""
        return self.call.h

    @property
    def n(self) -> int:
        """The number of rows left."""
        return len(kept(self.call.queries))

    @property
    def m(self) -> int:
        """The number of keys left."""
        return len(kept(self.call.keys))

    @property
    def e(self) -> int:
        """The width of a value."""
        return self.call.e

    @property
    def v(self) -> Array | None:
        """No values: what is left of a row is not what they are weighted with."""
        return None

    @property
    def like(self) -> Array:
        """An array of the right library, device and precision."""
        return self.call.like

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


def kept(tokens: Sequence[Token]) -> list[int]:
    """The places of the tokens that are not special.

    >>> kept([Token(0, "[CLS]", special=True), Token(1, "river"), Token(2, "bank")])
    [1, 2]
    """
    return [place for place, token in enumerate(tokens) if not token.special]
