"""Weight on the learned sink, which has a score but no value (gpt-oss)."""

from dataclasses import dataclass

import numpy as np

from attn_cli.summaries.reducers.heads.alignment import Alignment
from attn_cli.summaries.reducers.heads.row_numbers import RowNumber
from attn_cli.summaries.reducers.heads.statistic import HeadRows, Statistic


@dataclass(frozen=True, kw_only=True, eq=False)
class SinkWeight(Statistic):
    """What is missing to 1 in the sum of a row's weights."""

    def needs(self, alignment: Alignment) -> tuple[RowNumber, ...]:
        """Nothing but the sum of weights."""
        return ()

    def finish(self, rows: HeadRows) -> np.ndarray:
        """The mean of the sink's weights."""
        return rows.mean(rows.sink)


SINK_WEIGHT = SinkWeight(
    name="sink_weight",
    unit="weight",
    heading="sink",
    digits=2,
    caption="on the learned sink",
    meaning="weight on the learned sink; 0 without one",
    nothing=0.0,
)
