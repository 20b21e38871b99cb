"""A call kept for a later run: some rows of its weights, or the queries and keys from which all rows follow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attn_cli.arrays import Array, is_torch
from attn_cli.attention_call import AttentionCall, Ingredients
from attn_cli.call import Call
from attn_cli.kernel.bands.band import Band
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix
from attn_cli.weights_call import WeightsCall


@dataclass(frozen=True, eq=False)
class KeptRows(WeightsCall):
    """One layer's attention of which some query rows are kept: weights `[h, rows, m]` in NumPy; others can't be had.

    numbers  the indices of the kept rows, ascending
    """

    numbers: tuple[int, ...] = ()

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The weights of each of `rows`, which must be among the kept ones, as a `Band` of one row without scores.

        It has all heads and no scores, whatever `in_parts` and `want_scores` are.
        """
        for row in self.numbers if rows is None else rows:
            at = self.numbers.index(row)
            yield Band(row, row + 1, 0, self.m, self.weights[:, at : at + 1], None, np.empty((self.h, 1, 0)))


def kept_rows(call: Call, rows: Sequence[int]) -> KeptRows:
    """The weights of some query rows of one layer's attention, copied to NumPy; other rows and scores can't be had."""
    part = reduce(call, FullMatrix(rows=sorted(rows))).part(Matrix)
    assert part is not None and part.weights is not None
    rule = replace(call.rule, bias=None, sink=None)
    return KeptRows(part.weights, None, call.place, call.queries, call.keys, rule, tuple(sorted(rows)))


def kept_call(call: Call) -> Call:
    """A copy of one layer's attention that outlives the model's pass: q, k and mask, or weights where only these show.

    Values are not kept.
    """
    if not isinstance(call, AttentionCall):
        return kept_rows(call, range(call.n))
    k = _copy(call.k)
    # no values are needed, and the walk wants some
    return replace(call, q=_copy(call.q), k=k, v=k[..., :1], output=None, ingredients=Ingredients())


def kept_bytes(call: Call) -> int:
    """The bytes of what `kept_call` copies of one layer's attention: its queries and keys, or its weights."""
    arrays = (call.q, call.k) if isinstance(call, AttentionCall) else (call.like,)
    return sum(int(np.prod(x.shape)) * int(x.itemsize) for x in arrays)


def _copy(x: Array) -> Array:
    return x.detach().clone() if is_torch(x) else x.copy()
