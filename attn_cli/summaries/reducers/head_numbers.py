"""The reducers of `attn heads` for a call; apart from the command, for they are met while a model runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from attn_cli.call import Call
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.heads.head_statistics import HeadStatistics
from attn_cli.summaries.reducers.kinds.reducer import TextKinds


@dataclass(frozen=True)
class HeadNumbers:
    """Makes the reducers of `attn heads`: head statistics, and with `kinds` what each head attends to on this text.

    A reducer makes a result of one layer's attention.

    kinds    makes the reducers of kinds (induction ...); None for none
    """

    kinds: TextKinds | None = None

    def __call__(self, rows: Sequence[int] | None, call: Call) -> Sequence[Reducer]:
        """The reducers for these rows of a call, None for all."""
        judged = [] if self.kinds is None else [self.kinds.reducer(call)]
        return [HeadStatistics(rows), *judged]
