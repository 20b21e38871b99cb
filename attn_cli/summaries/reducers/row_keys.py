"""The reducers of `attn top` for a call: of keys row by row, together, or of all heads together."""

from collections.abc import Sequence
from dataclasses import dataclass

from attn_cli.call import Call
from attn_cli.summaries.calls.read_shares import By
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.keys import OverallKeys, TopKeys
from attn_cli.summaries.told.deciding_rows import DecidingRowsReducer

MANY_ROWS = 64  # queries; of more a screen has no room for the keys of each


@dataclass(frozen=True)
class RowKeys:
    """Makes the reducers of the keys that rows attend to most: of each row, of all together, or over all heads.

    by          what ranks the keys: "weight", or "value" or "output", weight times the norm of the value (after W_O)
    together    whether the rows are ranked together
    abridges    for a screen: whether the rows of a call of more than 64 queries are ranked together, too
    all_heads   whether all heads are taken together, in the picked rows or those that choose the next token
    """

    count: int
    mean_heads: bool = False
    by: By = "weight"
    scores: bool = True
    together: bool = False
    abridges: bool = False
    all_heads: bool = False

    def __call__(self, rows: Sequence[int] | None, call: Call) -> Sequence[Reducer]:
        """The reducer for these rows of a call, None for all."""
        if self.all_heads:
            return [] if rows is not None and not len(rows) else [DecidingRowsReducer(rows)]
        count, mean, by = self.count, self.mean_heads, self.by
        if self.together or (self.abridges and call.n > MANY_ROWS):
            return [OverallKeys(count, rows=rows, mean_heads=mean, abridged=not self.together, by=by)]
        return [TopKeys(count, rows=rows, mean_heads=mean, scores=self.scores, by=by)]
