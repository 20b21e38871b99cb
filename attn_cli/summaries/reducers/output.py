"""The attention output: weights times values, per head or joined and projected; rows that may attend to nothing."""

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
    masked_rows: np.ndarray  # [h], whose weights are all 0; 0 without a softmax

    def arrays(self) -> dict[str, np.ndarray]:
        """The attention output, `output` `[h, n, e]` of values e wide; of joined heads `[1, n, width]`."""
        return {"output": self.values}


@dataclass(frozen=True)
class KeepOutput:
    """Makes `Outputs` of a call; with `joined`, heads are concatenated and multiplied by `projection`."""

    joined: bool = False
    projection: Array | None = None  # W_O [h * e, width] (Vaswani et al. 2017, section 3.2.2)
    value_up: Array | None = None  # U_V [h, r, e], which raises latents of r numbers to values of e

    def wanted(self, call: Call) -> Wanted:
        """A request for each row's output, and whether it may attend to anything."""
        return Wanted(output=True, moments=("masked",) * call.rule.softmax)

    def part(self, call: Call, stats: RowStats) -> Outputs:
        """The output of all rows `[h, n, e]`, values e wide; if `joined`, heads side by side, times W_O if given."""
        output, heads = stats.output, call.place.heads
        masked = np.zeros(call.h, int) if stats.masked is None else to_numpy(stats.masked.sum(axis=-1))
        if self.value_up is not None:
            output = output @ self.value_up[list(heads)]
        if not self.joined:
            names = tuple(f"output · head {x}" for x in heads) if len(heads) > 1 else ("output",)
            return Outputs(to_numpy(output), names, masked)
        together = join_heads(output)
        if self.projection is not None:
            together = together @ self.projection
        return Outputs(to_numpy(together)[None], ("output",), masked)
