"""A call made from another one: the same attention with other rows and keys."""

from attn_cli.arrays import Array
from attn_cli.call import Call
from attn_cli.prompt import Token


class DerivedCall(Call):
    """Base class of calls derived from another; subclasses define bands().

    It has the place, rule, heads and value width of `call`, its own `queries` and `keys`, and no values. So it suits
    summaries that need weights, and not those that need q, k or v.
    """

    def __init__(self, call: Call, queries: tuple[Token, ...], keys: tuple[Token, ...]) -> None:
        self.call, self.queries, self.keys = call, queries, keys
        self.place, self.rule = call.place, call.rule  # the mask is in places of the original tokens

    @property
    def shows_scores(self) -> bool:
        """True if the call that this one is derived from shows scores."""
        return self.call.shows_scores

    @property
    def h(self) -> int:
        """The number of query heads."""
        return self.call.h

    @property
    def e(self) -> int:
        """The width of a value."""
        return self.call.e

    @property
    def like(self) -> Array:
        """An array in the library, on the device and in the precision of the call's own."""
        return self.call.like
