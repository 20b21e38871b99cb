"""The attention output: weights times values, per head or joined and projected."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attn_cli.arrays import Array, to_numpy, zeros
from attn_cli.call import Call
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.definition.heads import join_heads
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

    needs_scores = False
    whole_heads = False
    rows: Sequence[int] | None = None

    def __init__(self, *, joined: bool = False, projection: Array | None = None, value_up: Array | None = None) -> None:
        self.joined, self.projection, self.value_up = joined, projection, value_up

    def start(self, call: Call) -> None:
        """Allocate memory for the output of all rows, head by head, `[h, n, e]` of values e wide."""
        self.heads = call.place.heads
        self.kept = zeros((call.h, call.n, call.e), call.like)

    def add(self, band: Band) -> None:
        """Copy the output of the rows of a band, some adjacent query rows."""
        self.kept[band.heads, band.start : band.stop, :] = band.output

    def result(self) -> Outputs:
        """The output of all rows `[h, n, e]`, values e wide; if `joined`, heads side by side, times W_O if given."""
        if self.value_up is not None:
            self.kept = self.kept @ self.value_up[list(self.heads)]
        if not self.joined:
            many = len(self.heads) > 1
            return Outputs(to_numpy(self.kept), tuple(f"output · head {x}" if many else "output" for x in self.heads))
        together = join_heads(self.kept)
        if self.projection is not None:
            together = together @ self.projection
        return Outputs(to_numpy(together)[None], ("output",))


class PassOutput:
    """Hands the output `[b, e]` of each head and first row to `write` as bands pass; `Outputs` are empty."""

    needs_scores = False
    whole_heads = False
    rows: Sequence[int] | None = None

    def __init__(self, write: Callable[[int, int, np.ndarray], None]) -> None:
        self.write = write

    def start(self, call: Call) -> None:
        """Do nothing: no output is kept."""

    def add(self, band: Band) -> None:
        """Write the output of a band (some adjacent query rows), head by head."""
        for head, rows in enumerate(to_numpy(band.output), start=band.heads.start or 0):
            self.write(head, band.start, rows)

    def result(self) -> Outputs:
        """`Outputs` without numbers: the rows were written as they came."""
        return Outputs(np.empty((0, 0, 0)), ())
