"""A call made from another one: the same attention with other rows and keys."""

from collections.abc import Iterator, Sequence

from attn_cli.arrays import Array
from attn_cli.call import Call
from attn_cli.kernel.bands.plan import runs
from attn_cli.prompt import Token

_CELLS = 2**22  # of all heads that are put together at a time: 16 MiB


class DerivedCall(Call):
    """One layer's attention changed from another's (keys hidden, tokens merged); it has weights, and no q, k or v."""

    def __init__(self, call: Call, queries: tuple[Token, ...], keys: tuple[Token, ...]) -> None:
        self.call, self.queries, self.keys = call, queries, keys
        self.place, self.rule = call.place, call.rule  # the mask is in places of the original tokens

    @property
    def shows_scores(self) -> bool:
        """True if the attention that this one is derived from shows scores and not weights alone."""
        return self.call.shows_scores

    @property
    def e(self) -> int:
        """The width of a value."""
        return self.call.e

    @property
    def like(self) -> Array:
        """An array in the library (NumPy, torch), on the device and in the precision of the weights."""
        return self.call.like

    def runs(self, rows: Sequence[int] | None) -> Iterator[slice]:
        """Adjacent ones of all rows, or of `rows`, as many as are put together at a time."""
        step = max(1, _CELLS // max(1, self.h * self.m))
        return (slice(*run) for run in runs(range(self.n) if rows is None else rows, step))
