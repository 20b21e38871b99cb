"""A call as far as its row statistics need it."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from attn_cli.arrays import Array
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.definition.rule import Rule


class Banded(Protocol):
    """Attention of h heads, n queries and m keys whose weights can be read some rows at a time (as `Band`s)."""

    @property
    def h(self) -> int:
        """The number of query heads."""

    @property
    def n(self) -> int:
        """The number of queries."""

    @property
    def m(self) -> int:
        """The number of keys."""

    @property
    def e(self) -> int:
        """The width of a value."""

    @property
    def rule(self) -> Rule:
        """How scores become weights: scale, softcap, bias, mask, learned sink, and whether there is a softmax."""

    @property
    def like(self) -> Array:
        """An array in the library, on the device and in the precision in which weights come."""

    @property
    def shows_scores(self) -> bool:
        """True if the call's scores are known, not its weights alone."""

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The weights as bands of some adjacent rows each, ascending."""
