"""Weight on the token before the query."""

from attn_cli.summaries.reducers.heads.row_numbers import Diagonal
from attn_cli.summaries.reducers.heads.statistic import CellWeight

PREVIOUS_WEIGHT = CellWeight(
    name="previous_weight",
    heading="previous",
    caption="on the previous {unit}",
    meaning="weight on the token (or word) before the query; null where queries and keys differ",
    cell=Diagonal(1),
)
