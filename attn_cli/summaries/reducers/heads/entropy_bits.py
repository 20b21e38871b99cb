"""Entropy of a row of weights: how spread a head's attention is."""

from dataclasses import dataclass

import numpy as np

from attn_cli.summaries.reducers.heads.alignment import Alignment
from attn_cli.summaries.reducers.heads.row_numbers import LargestScore, LargestWeight, MeanScore, RowNumber
from attn_cli.summaries.reducers.heads.statistic import HeadRows, Statistic

_BITS_PER_NAT = float(1 / np.log(2))


@dataclass(frozen=True, kw_only=True, eq=False)
class Entropy(Statistic):
    """The mean of -log2 w over a row's weights w; a learned sink counts as a key, and so do hidden keys together.

    It takes no logarithm per cell: -log w = log_sum - score, log_sum follows from the row's largest score and weight,
    and the mean score is one dot product.
    """

    def needs(self, alignment: Alignment) -> tuple[RowNumber, ...]:
        """Largest weight and score, and the mean score."""
        return (LargestWeight(), LargestScore(), MeanScore())

    def finish(self, rows: HeadRows) -> np.ndarray:
        """The mean of the rows' entropies, in bits."""
        live, total, largest = rows.live, rows.weight_sum, rows.numbers[LargestWeight()]
        logarithm = np.log(largest, out=np.zeros_like(total), where=largest > 0)
        log_sum = rows.numbers[LargestScore()] - logarithm
        nats = total * log_sum - rows.numbers[MeanScore()]
        # of shares w / total, times total: the mean weighs rows by what is left of them
        nats += _times_log(total) if rows.rescaled else -_times_log(rows.sink) - _times_log(rows.hidden)
        # Two large numbers are subtracted: a row on one key may come out a rounding error below 0.
        return rows.mean(np.where(live, np.maximum(nats, 0.0) * _BITS_PER_NAT, 0.0))


def _times_log(values: np.ndarray) -> np.ndarray:
    """x log x, 0 for 0."""
    return values * np.log(values, out=np.zeros_like(values), where=values > 0)


ENTROPY_BITS = Entropy(
    name="entropy_bits",
    unit="bits",
    heading="entropy (bits)",
    digits=2,
    caption="entropy of the weights",
    meaning="entropy of a row of weights, in bits: 0 for one key, log2 m for uniform",
    minimum=-1e-6,
    largest_first=False,
)
