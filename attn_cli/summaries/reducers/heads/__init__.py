"""Per-head statistics: what each head does, in a handful of numbers, one statistic a file.

To add one, write its file and its line in `STATISTICS`: columns of tables, fields of JSON and CSV, arrays and schemas
follow from it. A narrow screen leaves out the last ones first.
"""

from attn_cli.summaries.reducers.heads.distance import DISTANCE
from attn_cli.summaries.reducers.heads.entropy_bits import ENTROPY_BITS
from attn_cli.summaries.reducers.heads.first_weight import FIRST_WEIGHT
from attn_cli.summaries.reducers.heads.statistics import INDUCTION_WEIGHT
from attn_cli.summaries.reducers.heads.next_weight import NEXT_WEIGHT
from attn_cli.summaries.reducers.heads.previous_weight import PREVIOUS_WEIGHT
from attn_cli.summaries.reducers.heads.self_weight import SELF_WEIGHT
from attn_cli.summaries.reducers.heads.sink_weight import SINK_WEIGHT
from attn_cli.summaries.reducers.heads.statistic import Statistic

STATISTICS: tuple[Statistic, ...] = (
    ENTROPY_BITS,
    DISTANCE,
    FIRST_WEIGHT,
    PREVIOUS_WEIGHT,
    SELF_WEIGHT,
    INDUCTION_WEIGHT,
    SINK_WEIGHT,
    NEXT_WEIGHT,
)
