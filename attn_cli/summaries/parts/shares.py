"""The attention of some rows to each part of a text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.kernel.definition.mask import Mask
from attn_cli.kernel.stats.wanted import ColumnSums, RowStats, Wanted
from attn_cli.summaries.parts.text_parts import TextPart
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.sight import sight_of


@dataclass(frozen=True, eq=False)
class PartShares(Part):
    """How much some query rows attend to S parts of the text, by head; the text's m tokens are the keys.

    shares    the mean over the rows of the weights on a part's keys, added up `[h, S]`; a row's shares add to 1, less
              what a learned sink takes
    received  the sum over heads and rows of the weights on each key `[m]`
    even      what `received` would be if every row gave the same to all keys that it may see `[m]`
    """

    name: ClassVar[str] = "part_shares"

    parts: tuple[TextPart, ...]
    rows: tuple[int, ...]
    shares: np.ndarray
    received: np.ndarray
    even: np.ndarray

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head and part: layer, head, part (its number), name and share, the mean weight on it, 0 to 1."""
        for at, head in enumerate(summary.place.heads):
            for number, part in enumerate(self.parts):
                yield {
                    "layer": summary.place.layer,
                    "head": head,
                    "part": number,
                    "name": part.name,
                    "share": float(self.shares[at, number]),
                }

    def arrays(self) -> dict[str, np.ndarray]:
        """`share` `[h, S]`: the mean over the rows of the weights on each of S parts, from 0 to 1."""
        return {"share": self.shares}


class SharesOfParts:
    """Adds up one call's weights on each part of a text, over the ascending query rows `rows`, to `PartShares`.

    The call's keys must be the tokens that the parts are made of.
    """

    def __init__(self, parts: Sequence[TextPart], rows: Sequence[int]) -> None:
        self.parts = tuple(parts)
        self.rows = tuple(rows)
        self._even: dict[tuple[Mask, int], np.ndarray] = {}

    def wanted(self, call: Call) -> Wanted:
        """A request for the sum of the weights on each key, over the rows that this reducer was made with."""
        return Wanted(column_sums=(ColumnSums(self.rows),))

    def part(self, call: Call, stats: RowStats) -> PartShares:
        """The mean weights of the chosen rows on the keys of each part, added up over its keys, by head."""
        sums = stats.column_sums[ColumnSums(self.rows)]
        shares = np.zeros((call.h, len(self.parts)))
        for number, part in enumerate(self.parts):
            shares[:, number] = sums[:, list(part.tokens)].sum(axis=1) / max(1, len(self.rows))
        # where only the model's own code knows the rule, weights tell which keys a row may see
        even = _even_by_weights(call, self.rows) if call.rule.describe()["scale"] is None else self._even_by_mask(call)
        return PartShares(self.parts, self.rows, shares, sums.sum(axis=0), even)

    def _even_by_mask(self, call: Call) -> np.ndarray:
        """Each key's weight under uniform attention, summed over rows and heads `[m]`; once for each mask."""
        key = call.rule.mask, call.m
        if key not in self._even:
            picked = np.zeros(call.n)
            picked[list(self.rows)] = 1.0
            self._even[key] = sight_of(call.rule.mask, call.n, call.m, call.like).uniform(picked) * call.h
        return self._even[key]


def _even_by_weights(call: Call, rows: Sequence[int]) -> np.ndarray:
    """Each key's weight under uniform attention over the keys on which a row has weight, summed over rows `[m]`."""
    even = np.zeros(call.m)
    for band in call.bands(rows=rows):
        seen = to_numpy(band.weights) > 0  # [h, b, c]
        count = seen.sum(axis=-1, keepdims=True)
        even[band.first : band.last] += (seen / np.maximum(count, 1)).sum(axis=(0, 1))
    return even
