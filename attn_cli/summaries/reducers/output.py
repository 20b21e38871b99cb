"""The attention output: weights times values, per head or joined and projected; rows that may attend to nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attn_cli.arrays import Array, to_numpy
from attn_cli.call import Call
from attn_cli.kernel.definition.heads import join_heads
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.reduce import Part


@dataclass(frozen=True, eq=False)
class Outputs(Part):
    """Rows of attention output: `values` `[h, n, e]`, of joined heads `[1, n, width]`; `names` title the first axis."""

    name: ClassVar[str] = "outputs"

    values: np.ndarray
    names: tuple[str, ...]

    def arrays(self) -> dict[str, np.ndarray]:
        """The attention output, `output` `[h, n, e]` of values e wide; of joined heads `[1, n, width]`."""
        return {"output": self.values}


class KeepOutput:
    """Makes `Outputs` of a call; with `joined`, heads are concatenated and multiplied by `projection`.

    projection  W_O `[h * e, width]`, None for none (Vaswani et al. 2017, section 3.2.2)
    value_up    U_V `[h, r, e]`, which raises latents of r numbers to values of e; None where values are no latents
    """

    def __init__(self, *, joined: bool = False, projection: Array | None = None, value_up: Array | None = None) -> None:
        self.joined, self.projection, self.value_up = joined, projection, value_up

    def wanted(self, call: Call) -> Wanted:
        """A request for each row's output."""
        return Wanted(output=True)

    def part(self, call: Call, stats: RowStats) -> Outputs:
        """The output of all rows `[h, n, e]`, values e wide; if `joined`, heads side by side, times W_O if given."""
        output, heads = stats.output, call.place.heads
        if self.value_up is not None:
            output = output @ self.value_up[list(heads)]
        if not self.joined:
            many = len(heads) > 1
            return Outputs(to_numpy(output), tuple(f"output · head {x}" if many else "output" for x in heads))
        together = join_heads(output)
        if self.projection is not None:
            together = together @ self.projection
        return Outputs(to_numpy(together)[None], ("output",))


class PassOutput:
    """Hands the output `[b, e]` of each head and first row to `write` as bands pass; `Outputs` are empty."""

    def __init__(self, write: Callable[[int, int, np.ndarray], None]) -> None:
        self.write = write

    def wanted(self, call: Call) -> Wanted:
        """An empty request: it reads bands."""
        return Wanted()

    def part(self, call: Call, stats: RowStats) -> Outputs:
        """`Outputs` without numbers: the rows of each band are written as they come, head by head."""
        for band in call.bands(in_parts=True):
            for head, rows in enumerate(to_numpy(band.output), start=band.heads.start or 0):
                self.write(head, band.start, rows)
        return Outputs(np.empty((0, 0, 0)), ())


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
