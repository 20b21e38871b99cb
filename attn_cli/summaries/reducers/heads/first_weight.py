"""Weight on the first key, where attention sinks usually are."""

from attn_cli.summaries.reducers.heads.row_numbers import FixedKey
from attn_cli.summaries.reducers.heads.statistic import CellWeight

FIRST_WEIGHT = CellWeight(
    name="first_weight",
    heading="first",
    caption="weight on the first key",
    meaning="weight on key 0",
    nothing=0.0,
    cell=FixedKey(0),
)
