"""The request and the result of one walk of compiled code: some rows, one ranking, one pool."""

from dataclasses import dataclass

import numpy as np

from attn_cli.arrays import Array
from attn_cli.kernel.stats.wanted import Pool, RowNumbers

# The moments that a walk notes, in the order of the compiled code's arrays; which rows are masked, the maximum says.
NOTED_MOMENTS = ("maximum", "logsumexp", "weight_sum", "entropy_nats", "distance")
MOST_TOP = 64  # largest weights of a row


@dataclass(frozen=True, eq=False)
class OneWalk:
    """What compiled code is asked for in one pass over a layer's q, k and v.

    key_sets        for each set the keys of all n rows `[n, c]`, -1 for none, whose weights are added up
    vectors         numbers of the m keys, by which each row's weights are multiplied `[m]` each
    top             how many of the largest weights of a row, at most 64
    rows            the ascending rows that all this is of; None for all
    """

    moments: bool = False
    key_sets: tuple[np.ndarray, ...] = ()
    vectors: tuple[np.ndarray, ...] = ()
    column_sums: bool = False
    top: int = 0
    pool: Pool | None = None
    rows: tuple[int, ...] | None = None


@dataclass(frozen=True, repr=False, eq=False)
class WalkStats(RowNumbers):
    """The result of one pass of compiled code over h heads, for R rows; None for what was not asked for.

    Tensors where a GPU computed it, else NumPy's.

    output         `[h, n, e]`
    column_sums    the sum of the weights on each key `[h, m]` in float64
    top_weights, top_scores, top_keys  the k largest weights of a row, their scores and keys `[h, R, k]`
    pooled         the largest weight of each block, or the sum `[h, blocks of rows, blocks of keys]`
    """

    output: Array | None
    column_sums: Array | None = None
    top_weights: Array | None = None
    top_scores: Array | None = None
    top_keys: Array | None = None
    pooled: Array | None = None
