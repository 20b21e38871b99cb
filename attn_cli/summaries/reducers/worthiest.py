"""The head that is most worth a look: by its kind, or else by how sharply it looks past the sinks; with its matrix."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attn_cli.call import Call
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.reduce import Part, RowReducer, Summary
from attn_cli.summaries.reducers.kinds import CONTENT, KINDS, PLACE
from attn_cli.summaries.reducers.kinds.head_kinds import HeadKinds
from attn_cli.summaries.reducers.kinds.kind_sums import LEAST_ROWS
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.reducers.pooled import PooledMatrix

_FEW_ROWS = 4  # with a target: fewer say nothing of a head, however high its number
_CONTENT, _PERHAPS, _PLACE = (2.0, 1.0), (1.9, 0.1), (1.0, 0.9)  # what is added to a number, times what


def worth(part: HeadKinds) -> np.ndarray:
    """How much each head of a call is worth a look `[h]`.

    Heads that find content go before those that would with more rows, these before those that look at a place, and
    these before all others, of which `sharpness` says how sharply they look past the sinks.
    """
    judged = part.judged
    worths = part.sharpness.copy()
    for at, kind in enumerate(judged.kind.tolist()):
        if kind >= 0 and KINDS[kind].rank in (CONTENT, PLACE):
            base, times = _CONTENT if KINDS[kind].rank == CONTENT else _PLACE
            worths[at] = base + times * judged.number[kind, at]
        if (perhaps := _perhaps(part, at)) is not None:
            worths[at] = max(worths[at], _PERHAPS[0] + _PERHAPS[1] * judged.measured[perhaps, at])
    return worths


def reason(part: HeadKinds, at: int) -> str:
    """Why this head is worth a look, in words."""
    judged, named, perhaps = part.judged, int(part.judged.kind[at]), _perhaps(part, at)
    if perhaps is not None and not (named >= 0 and KINDS[named].rank == CONTENT):
        number, rows = perhaps, f" on {int(judged.rows[perhaps])} rows"
    elif named >= 0 and KINDS[named].rank in (CONTENT, PLACE):
        number, rows = named, ""
    else:
        return "most focused on non-sink keys"
    words = f"{KINDS[number].words} {judged.measured[number, at]:.2f}{rows}"
    return f"{words}, baseline {judged.baseline[number]:.3f}"


def _perhaps(part: HeadKinds, at: int) -> int | None:
    """The kind that would find content, were there rows enough to judge it; None for none."""
    judged = part.judged
    high = judged.is_high(judged.measured)[:, at]
    for number, kind in enumerate(KINDS):
        if kind.rank == CONTENT and high[number] and _FEW_ROWS <= judged.rows[number] < LEAST_ROWS:
            return number
    return None


class MadeOnce:
    """A reducer whose part another one needs, too: both have the same object."""

    def __init__(self, reducer: RowReducer) -> None:
        self.reducer = reducer
        self._made: tuple[RowStats, Part] | None = None

    def wanted(self, call: Call) -> Wanted:
        """What the reducer wants."""
        return self.reducer.wanted(call)

    def part(self, call: Call, stats: RowStats) -> Part:
        """The reducer's part, made when it is first asked for."""
        if self._made is None or self._made[0] is not stats:
            self._made = stats, self.reducer.part(call, stats)
        return self._made[1]


class WorthiestMatrix:
    """Collects the pooled matrix of the one head of a call that is most worth a look.

    pooled  collects the matrices of all heads
    kinds   collects the `HeadKinds` by which they are judged
    """

    def __init__(self, pooled: PooledMatrix, kinds: RowReducer) -> None:
        self.pooled, self.kinds = pooled, kinds

    def wanted(self, call: Call) -> Wanted:
        """The blocks of every head, and what the kinds want."""
        return self.pooled.wanted(call) | self.kinds.wanted(call)

    def part(self, call: Call, stats: RowStats) -> Matrix:
        """The matrix of that head."""
        matrix, kinds = self.pooled.part(call, stats), self.kinds.part(call, stats)
        assert isinstance(kinds, HeadKinds)
        at = int(worth(kinds).argmax())
        matrix = replace(matrix, heads=(call.place.heads[at],), reason=reason(kinds, at))
        if matrix.rescaled_share is not None:
            return replace(matrix, rescaled_share=matrix.rescaled_share[[at]])
        assert matrix.weights is not None
        return replace(matrix, weights=matrix.weights[[at]])


def with_worthiest_alone(summaries: Sequence[Summary]) -> tuple[Summary, ...]:
    """The summaries with no other matrix than that of the head that is most worth a look in all of them.

    Where there is one head only, nothing is said of why it is that.
    """
    parts = [summary.part(HeadKinds) for summary in summaries]
    if not any(parts):
        return tuple(summaries)
    most = [-1.0 if part is None or not len(part.sharpness) else float(worth(part).max()) for part in parts]
    best = int(np.argmax(most)) if most else -1
    alone = sum(len(summary.place.heads) for summary in summaries) == 1

    def kept(part: Part, at: int) -> bool:
        return at == best or not isinstance(part, Matrix)

    return tuple(
        replace(summary, parts=tuple(
            replace(part, reason="") if alone and isinstance(part, Matrix) else part
            for part in summary.parts if kept(part, at)
        ))
        for at, summary in enumerate(summaries)
    )  # fmt: skip
