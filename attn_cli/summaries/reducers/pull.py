"""Pull: the share of a query's attention output that comes from each key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attn_cli.arrays import Array, at_least_float32, namespace, to_numpy, zeros
from attn_cli.call import Call
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.picked_rows import RowPlaces
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.summaries.reduce import Part


@dataclass(frozen=True, eq=False)
class Pulls(Part):
    """For r queries their weights and pulls on all m keys, over all heads at once: `[r, m]` each.

    weights  mean over the heads
    pulls    each key's share of the attention output: the part that comes from it, measured along the output, over its
             norm; may be negative, a row adds to 1. None where a source shows no values
    """

    name: ClassVar[str] = "pulls"

    rows: tuple[int, ...]
    weights: np.ndarray
    pulls: np.ndarray | None


class PullOfKeys:
    """The pull of key j on query i: the part of the output z that comes from j, measured along z, over |z|.

    z = sum over j of c_j with c_j = weight_ij v_j, heads side by side; pull_j = c_j · z / |z|². This is before W_O,
    which mixes the heads: the same for every context, and not always at hand.
    """

    needs_scores = False
    whole_heads = True

    def __init__(self, rows: Sequence[int]) -> None:
        self.rows: Sequence[int] | None = sorted(rows)

    def start(self, call: Call) -> None:
        """Allocate weights and pulls (shares of the output) `[r, m]` for r rows and m keys, on the weights' device."""
        self.places = RowPlaces(self.rows, call.n)
        self.weights = zeros((len(self.places), call.m), call.like)
        self.pulls = zeros((len(self.places), call.m), call.like)
        self.values: Array = None if call.v is None else expand_groups(at_least_float32(call.v), call.h)

    def add(self, band: Band) -> None:
        """Take in the picked rows of a band (adjacent query rows): mean weights, and keys' shares of the output."""
        fit = self.places.of(band)
        if fit is None:
            return
        xp = namespace(band.weights)
        weights = band.weights[:, fit.inside, :]
        self.weights[fit.kept, band.first : band.last] = weights.mean(0)
        if self.values is None:
            return
        output = band.output[:, fit.inside, :]
        along = output @ xp.matrix_transpose(self.values[:, band.first : band.last, :])
        squared = (output * output).sum(-1).sum(0)[:, None]
        shares = (weights * along).sum(0) / xp.where(squared > 0, squared, xp.ones_like(squared))
        self.pulls[fit.kept, band.first : band.last] = shares

    def result(self) -> Pulls:
        """The r picked rows' mean weights, and pulls (shares of the output that come from a key), `[r, m]`."""
        pulls = None if self.values is None else to_numpy(self.pulls)
        return Pulls(tuple(self.places.numbers), to_numpy(self.weights), pulls)
