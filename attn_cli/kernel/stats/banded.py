"""A call as far as its row statistics need it."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from attn_cli.arrays import Array
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.definition.rule import Rule


class Banded(Protocol):
    """A call of h heads, n queries and m keys, as far as its row statistics need it."""

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
    def rule(self) -> Rule:
        """The rule by which scores become weights."""

    @property
    def like(self) -> Array:
        """An array of the right library, device and precision."""

    @property
    def shows_scores(self) -> bool:
        """True if bands can carry scores."""

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The attention, a few rows at a time, ascending."""
