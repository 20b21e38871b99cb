"""Weight on what followed the query's token before: prefix matching (Olsson et al. 2022), as induction heads do."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.prompt import Token
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.reducers.heads.row_numbers import KeyOfRow
from attn_cli.summaries.reducers.heads.statistic import CellWeight, HeadRows


def followers(tokens: Sequence[Token]) -> np.ndarray:
    """For every token the place after the last earlier one that is the same, -1 where there is none.

    Control tokens follow nothing: they come up again by the tokenizer's rules, not by the text's.

    >>> followers([Token(i, text) for i, text in enumerate("a b a a".split())]).tolist()
    [-1, -1, 1, 3]
    """
    places = np.full(len(tokens), -1)
    last: dict[int | str, int] = {}
    for place, token in enumerate(tokens):
        if not token.special:
            name = token.text if token.id is None else token.id
            places[place] = last.get(name, -2) + 1
            last[name] = place
    return places


@dataclass(frozen=True, kw_only=True, eq=False)
class InductionWeight(CellWeight):
    """A mean over the queries whose token came up before, NaN where none did."""

    cell: KeyOfRow

    def finish(self, rows: HeadRows) -> np.ndarray:
        """The mean of the cells over the rows that have one."""
        repeated = rows.total(rows.live & (self.cell.keys_of_texts(rows.texts) >= 0))
        total = rows.total(rows.numbers[self.cell])
        return np.divide(total, repeated, out=np.full(total.shape, np.nan), where=repeated > 0)


INDUCTION_WEIGHT = InductionWeight(
    name="induction_weight",
    heading="induction",
    caption="on what followed the query's {unit} before",
    meaning="weight on the token (or word) that followed when the query's token (or word) last came up, "
    "over the queries whose did; null where none does",
    nothing=math.nan,
    cell=KeyOfRow(memoised(followers)),
)
