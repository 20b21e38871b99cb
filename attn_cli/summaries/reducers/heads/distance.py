"""Distance from a query to the keys that it attends to, in tokens."""

from dataclasses import dataclass

import numpy as np

from attn_cli.summaries.reducers.heads.alignment import Alignment
from attn_cli.summaries.reducers.heads.row_numbers import MeanDistance, MeanKey, RowNumber
from attn_cli.summaries.reducers.heads.statistic import HeadRows, Statistic


@dataclass(frozen=True, kw_only=True, eq=False)
class Distance(Statistic):
    """The mean of |i - j| over a row's weights; where no query looks ahead, i less the mean key number."""

    def needs(self, alignment: Alignment) -> tuple[RowNumber, ...] | None:
        """The mean key number, or the mean distance where keys are on both sides; None in cross-attention."""
        if not alignment.same_tokens:
            return None
        return (MeanKey(),) if alignment.looks_back else (MeanDistance(),)

    def finish(self, rows: HeadRows) -> np.ndarray:
        """The mean of the rows' distances."""
        if not rows.texts.any.looks_back:
            return rows.mean(rows.numbers[MeanDistance()])
        return rows.mean(rows.weight_sum * rows.texts.places - rows.numbers[MeanKey()])


DISTANCE = Distance(
    name="distance",
    unit="tokens",
    heading="distance",
    digits=1,
    caption="distance in {unit}s",
    meaning="how many tokens (or words) away the attended keys are, weighted; null where queries and keys differ",
)
