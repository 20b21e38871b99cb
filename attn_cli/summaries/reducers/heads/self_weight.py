"""Weight on the query itself."""

from attn_cli.summaries.reducers.heads.row_numbers import Diagonal
from attn_cli.summaries.reducers.heads.statistic import CellWeight

SELF_WEIGHT = CellWeight(
    name="self_weight",
    heading="self",
    caption="on the query itself",
    meaning="weight on the query itself; null where queries and keys differ",
    cell=Diagonal(0),
)
