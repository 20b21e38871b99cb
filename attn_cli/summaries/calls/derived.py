"""A call that shows another one with other rows and keys."""

from attn_cli.arrays import Array
from attn_cli.call import Call, Place
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token


class CallAround:
    """What stays as it is in `call`, while rows and keys become `queries` and `keys`; `bands` is left to say.

    For summaries that take weights as they come.
    """

    def __init__(self, call: Call, queries: tuple[Token, ...], keys: tuple[Token, ...]) -> None:
        self.call, self.queries, self.keys = call, queries, keys

    @property
    def place(self) -> Place:
        """Where the call is."""
        return self.call.place

    @property
    def rule(self) -> Rule:
        """How scores become weights, between all tokens."""
        return self.call.rule

    @property
    def h(self) -> int:
        """The number of query heads."""
        return self.call.h

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.queries)

    @property
    def m(self) -> int:
        """The number of keys."""
        return len(self.keys)

    @property
    def e(self) -> int:
        """The width of a value."""
        return self.call.e

    @property
    def v(self) -> Array | None:
        """No values: those of the call belong to its own keys."""
        return None

    @property
    def like(self) -> Array:
        """An array of the right library, device and precision."""
        return self.call.like
