"""The heads that stand out on a text, in order, each with the reason: the one answer that all screens give."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.kinds.head_kinds import CONTENT, KINDS, PLACE, Kind
from attn_cli.summaries.reducers.kinds.numbers import LEAST_ROWS, LEAST_WEIGHT
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds

_FEW_ROWS = 4  # with a target: fewer say nothing of a head, however high its number
LEAST_SHARE = 0.5  # on one key a row, of what isn't given to sinks
_TIMES_UNIFORM = 3
_CONTENT, _PLACED = ([at for at, kind in enumerate(KINDS) if kind.rank == rank] for rank in (CONTENT, PLACE))

_NO_HEAD = "no head stands out"


@dataclass(frozen=True)
class StandOut:
    """A head that stands out on a text by what it attends to, and the numbers that say so.

    call, at   the index of its call among the summaries, and its own among the heads of the call
    layer, head  its numbers in the model
    kind       what it is called (induction, previous token ...)
    is_judged  whether so many rows have a target that the kind is its name: 16, or for sharp induction or duplicate
               heads 8; of fewer it may be chance
    weight     mean weight on the keys that define the kind and are no sinks, over the rows with one; without a kind on
               the strongest key that is no sink, over the rows that see 4 keys or more
    baseline   what uniform attention would give
    rows       how many rows these are
    strongest  the query and key of the largest weight among them, by their indices in the call, and that weight
    """

    call: int
    at: int
    layer: int
    head: int
    kind: Kind | None
    is_judged: bool
    weight: float
    baseline: float
    rows: int
    strongest: tuple[int, int, float] | None

    @property
    def name(self) -> str:
        """The head's name on a command line, layer and head: `18.6`."""
        return f"{self.layer}.{self.head}"

    @property
    def reason(self) -> str:
        """Why it stands out, in words: its kind (induction ...) and mean weight there, or that on one key a row."""
        if self.kind is None:
            return f"{self.weight:.2f} of a row on one key, sinks excluded"
        few = "" if self.is_judged else f" on {self.rows} rows"
        return f"{self.kind.words} {self.weight:.2f}{few}, baseline {self.baseline:.3f}"

    @property
    def order(self) -> tuple[float, float]:
        """A key to sort by, small for a head that says more of a text."""
        if self.kind is None:
            return 3, -self.weight
        if self.kind.rank == CONTENT:
            return (0 if self.is_judged else 1), -self.weight
        return 2, -self.weight


@dataclass(frozen=True)
class ChosenHead:
    """The head of one call whose matrix is shown: that which stands out most, else that of the strongest keys.

    at         its index among the heads of the call
    out        why it stands out; None where no head of the call does
    weight     its mean weight on a row's strongest key past the sinks
    has_sinks  whether some key is a sink of at least a tenth of the call's heads
    """

    at: int
    out: StandOut | None
    weight: float
    has_sinks: bool

    @property
    def reason(self) -> str:
        """Why it was chosen, in words: what it stands out by, or the weight on its strongest keys."""
        return _NO_HEAD if self.out is None else self.out.reason

    @property
    def order(self) -> tuple[float, float]:
        """A key to sort by, small for a head that is chosen before those of other calls."""
        return (4.0, -self.weight) if self.out is None else self.out.order


def standing_out(summaries: Sequence[Summary]) -> list[StandOut]:
    """The heads that stand out, those first that say most; none where no head looks at anything but sinks."""
    found = [
        out
        for call, summary in enumerate(summaries)
        if (part := summary.part(HeadKinds)) is not None
        for at, (number, is_judged) in _candidates(part)
        if (out := _stands_out(part, call, at, summary, number, is_judged)) is not None
    ]
    return sorted(found, key=lambda out: out.order)


def on_few_rows(summaries: Sequence[Summary]) -> dict[tuple[int, int], StandOut]:
    """The heads that may be of a kind, on too few rows (4 to 15) to be named by it."""
    return {(out.call, out.at): out for out in standing_out(summaries) if not out.is_judged}


def _stands_out(
    part: HeadKinds, call: int, at: int, summary: Summary, number: int | None, is_judged: bool
) -> StandOut | None:
    judged, peaks, place = part.judged, part.peaks, summary.place
    if number is None:
        kind, rows = None, peaks.counted
        weight, baseline, count = peaks.weight[at], peaks.uniform, rows.sum()
    else:
        kind = KINDS[number]
        rows = part.reading_rows(at, kind)
        weight, baseline, count = judged.weight[number, at], judged.baseline[number], judged.rows[number]
        if peaks.weights[at][rows].sum() < LEAST_WEIGHT * count:  # targets that are sinks of this head
            return None
    return StandOut(call, at, place.layer, place.heads[at], kind, is_judged, float(weight),
                    float(baseline), int(count), _strongest(part, at, rows))  # fmt: skip


def _strongest(part: HeadKinds, at: int, rows: np.ndarray) -> tuple[int, int, float] | None:
    weights = np.where(rows & (part.peaks.keys[at] >= 0), part.peaks.weights[at], 0)
    if not weights.any():
        return None
    row = int(weights.argmax())
    return row, int(part.peaks.keys[at, row]), float(weights[row])


def _candidates(part: HeadKinds) -> Iterator[tuple[int, tuple[int | None, bool]]]:
    """The heads that may stand out, each with its place in `KINDS` and whether there were rows enough to judge that."""
    judged, peaks = part.judged, part.peaks
    few, few_placed = ([at for at in some if _FEW_ROWS <= judged.rows[at] < LEAST_ROWS] for some in (_CONTENT, _PLACED))
    focused = (peaks.weight >= max(LEAST_WEIGHT, _TIMES_UNIFORM * peaks.uniform)) & (peaks.share >= LEAST_SHARE)
    for at, named in enumerate(judged.kind.tolist()):
        if named in _CONTENT:
            yield at, (named, True)
        elif (number := next((x for x in few if judged.high[x, at]), None)) is not None:
            yield at, (number, False)
        elif named in _PLACED:
            yield at, (named, True)
        elif focused[at]:
            placed = next((x for x in few_placed if judged.high[x, at]), None)
            yield at, (placed, placed is None)
