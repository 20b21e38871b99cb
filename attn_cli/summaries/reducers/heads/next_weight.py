"""Weight on the token after the query, for models that see what follows."""

import math
from dataclasses import dataclass

import numpy as np

from attn_cli.summaries.reducers.heads.row_numbers import Diagonal
from attn_cli.summaries.reducers.heads.statistic import CellWeight, HeadRows


@dataclass(frozen=True, kw_only=True, eq=False)
class NextWeight(CellWeight):
    """The mean over all queries; NaN if no query of any head has weight on its next token, as under a causal mask."""

    def finish(self, rows: HeadRows) -> np.ndarray:
        """The mean of the cells, NaN if all of them in all heads are 0."""
        cells = rows.numbers[self.cell]
        return np.where(rows.total(cells != 0).any(axis=0), rows.mean(cells), np.nan)


NEXT_WEIGHT = NextWeight(
    name="next_weight",
    heading="next",
    caption="on the next {unit}",
    meaning="weight on the token (or word) after the query; null where queries and keys differ, "
    "or no query may attend to what follows it",
    nothing=math.nan,
    cell=Diagonal(-1),
)
