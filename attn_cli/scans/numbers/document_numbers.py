"""The numbers of every document and head of a batch: head statistics, and weight and share of every kind."""

from dataclasses import replace

import numpy as np

from attn_cli.kernel.stats.wanted import RowStats
from attn_cli.scans.numbers.batch_targets import BatchTargets
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.reducers.kinds.reducer import kind_numbers
from attn_cli.summaries.reducers.kinds.targets import KINDS

STATISTIC_NAMES = tuple(statistic.name for statistic in STATISTICS)
OF_HEADS, OF_TEXTS = (
    ("weight", "share", "non_sink_weight", "row_support", "control"),
    ("baseline", "rows", "control_rows"),
)
NAMES = (*STATISTIC_NAMES, *(f"{kind.name}:{what}" for what in OF_HEADS for kind in KINDS))
BASELINE_NAMES = tuple(f"{kind.name}:{what}" for what in OF_TEXTS for kind in KINDS)
AT = {name: at for at, name in enumerate(NAMES)}


def values_of(stats: RowStats, targets: BatchTargets) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of h heads in each of B texts, `NAMES` `[V, h, B]` and `BASELINE_NAMES` `[C, B]`; NaN for none."""
    masked = np.broadcast_to(~targets.live, (len(np.asarray(stats.weight_sum)), len(targets.live)))  # padding, too
    statistics = targets.asked.answered(replace(stats, masked=masked))
    kinds = kind_numbers(stats, targets.by_kind, targets.factors, targets.rows.count)
    of_heads = [[statistics[name] for name in STATISTIC_NAMES], *(getattr(kinds, what) for what in OF_HEADS)]
    return np.concatenate(of_heads), np.concatenate([getattr(kinds, what) for what in OF_TEXTS])
