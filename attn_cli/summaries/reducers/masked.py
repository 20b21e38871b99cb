"""Masked rows: queries that may attend to nothing."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.reduce import Part


@dataclass(frozen=True, eq=False)
class Masked(Part):
    """The number of rows of every head whose weights are all 0, `[h]`; their output is 0 too."""

    name: ClassVar[str] = "masked"

    rows: np.ndarray


class MaskedRows:
    """Makes `Masked` of a call: how many rows of each head may attend to nothing."""

    def wanted(self, call: Call) -> Wanted:
        """A request to say of each row whether it may attend to nothing."""
        return Wanted(moments=("masked",))

    def part(self, call: Call, stats: RowStats) -> Masked:
        """The number of rows of each head that may attend to nothing."""
        assert stats.masked is not None
        return Masked(to_numpy(stats.masked.sum(axis=-1)))
