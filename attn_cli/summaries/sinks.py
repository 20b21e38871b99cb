"""The definition of a sink: a key to which heads give weight that they have no use for (Xiao et al. 2023)."""

from collections.abc import Sequence

import numpy as np

from attn_cli.arrays import Array
from attn_cli.call import Call
from attn_cli.kernel.stats.wanted import ColumnSums
from attn_cli.memo import memoised
from attn_cli.prompt import Token
from attn_cli.summaries.sight import Sight

MOST_OF_A_KEY = 0.3  # the reception of a sink (Gu et al. 2024)
TIMES_UNIFORM = 3  # on a few tokens uniform attention gives a key that much
SHORT_VALUE, LONG_RESIDUAL = 0.5, 3.0  # times the median length: a sink has a shorter value, or a longer vector
FEW_KEYS = 8  # rows that may see fewer say little: they are left out where there are others
FEW_ROWS = 8  # of a key: so few say nothing of it where others are seen by more


def expected_sinks(call: Call) -> np.ndarray:
    """The keys of a call that heads may rest on whatever they say (sinks), ascending, known before a model has run."""
    if call.place.stream != "cross" and call.is_causal:
        return np.zeros(min(1, call.m), dtype=np.int64)
    return special_places(call.keys)


@memoised
def special_places(tokens: Sequence[Token]) -> np.ndarray:
    """The indices of special tokens among `tokens`, ascending; `[]` for none."""
    return np.array([place for place, token in enumerate(tokens) if token.special], dtype=np.int64)


class SinkRows:
    """The rows by which sinks are known: those that see 8 keys or more; all rows where none sees so many."""

    def __init__(self, sight: Sight) -> None:
        few = (sight.count < FEW_KEYS) & (sight.count.max(initial=0) >= FEW_KEYS)
        self.sight, self.left_out = sight, ColumnSums(tuple(np.flatnonzero(few).tolist()))
        self.seen_by, self.uniform = sight.along_columns(1.0 - few), sight.uniform(1.0 - few)  # [m] sums over them

    def sinks(self, received: Array, received_few: Array) -> Array:
        """Whether each key is a sink of each head `[h, m]`: rows that see it give it over 0.3, and 3 times uniform."""
        rows = np.maximum(self.seen_by, 1.0)
        judged = self.seen_by >= min(FEW_ROWS, self.seen_by.max(initial=0))
        least = np.where(judged, np.maximum(MOST_OF_A_KEY, TIMES_UNIFORM * self.uniform / rows), np.inf)
        mean = np.where(self.seen_by > 0, (received.astype(np.float64) - received_few) / rows, 0.0)
        return mean > least


def median(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """The median along an axis, NaN if a number is NaN, without NumPy's, which imports its masked arrays."""
    return _middle(np.moveaxis(values, axis, -1), np.array(values.shape[axis]))


def _middle(values: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The median `[...]` of the first `count` `[...]` of `values` `[..., m]`; NaN if one of them is NaN."""
    n = np.broadcast_to(count, values.shape[:-1])[..., None]
    ordered = np.sort(np.where(np.arange(values.shape[-1]) < n, values, np.nan), axis=-1)  # NaN comes last
    lower, upper, last = (np.take_along_axis(ordered, at, axis=-1)[..., 0] for at in ((n - 1) // 2, n // 2, n - 1))
    return np.where(np.isnan(last), np.nan, (lower + upper) / 2)


def over_median(norms: np.ndarray, count: np.ndarray | None = None) -> np.ndarray:
    """Each of `norms` `[..., m]` over the median of its row, or of the row's first `count`; NaN where that is 0."""
    norms = norms.astype(np.float64)
    middle = _middle(norms, np.array(norms.shape[-1]) if count is None else count)[..., None]
    return np.divide(norms, middle, out=np.full_like(norms, np.nan), where=middle > 0)
