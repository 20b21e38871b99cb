"""The heads that stand out on a text, in order, and what they do in words: the one answer that all faces give."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.kinds.head_kinds import CONTENT, KINDS, PLACE, Kind
from attn_cli.summaries.reducers.kinds.numbers import LEAST_WEIGHT
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds

# Without a kind: the share on one key a row, and how much more than uniform that is.
LEAST_SHARE, _TIMES_UNIFORM = 0.5, 3
_FEW_ROWS = 4  # with a target: fewer say nothing of a head, however high its number
_CONTENT, _PLACED = ([at for at, kind in enumerate(KINDS) if kind.rank == rank] for rank in (CONTENT, PLACE))
_FOCUSED, _NO_KIND = "focused", "no kind"


@dataclass(frozen=True)
class StandOut:
    """A head that stands out on a text by what it attends to, and the numbers that say so.

    is_judged  whether so many rows have a target that the kind is its name; of fewer it may be chance
    weight     mean weight on the kind's targets that are no sinks, over the rows with one; without a kind on
               the strongest key that is no sink, over the rows that see 4 keys or more
    rows       how many rows these are; 0 of a head that doesn't stand out, but is shown for want of another
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
        """Why it is shown, in words: its kind (induction ...) and mean weight there, or that on one key a row."""
        if not self.rows:
            return "no head stands out"
        if self.kind is None:
            return f"{self.weight:.2f} of a row on one key, sinks excluded"
        few = "" if self.is_judged else f" on {self.rows} rows"
        return f"{self.kind.words} {self.weight:.2f}{few}, baseline {self.baseline:.3f}"

    @property
    def order(self) -> tuple[float, float]:
        """A key to sort by, small for a head that says more of a text."""
        if self.kind is None:
            return (3 if self.rows else 4), -self.weight
        if self.kind.rank == CONTENT:
            return (0 if self.is_judged else 1), -self.weight
        return 2, -self.weight


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


def does(kind: Kind | None) -> str:
    """What a head of a kind (induction ...) attends to, as a phrase; for None, what one of no kind does."""
    return "gives one key a row most of what sinks don't get" if kind is None else kind.does


def sentence(out: StandOut) -> str:
    """A sentence on what a head that stands out attends to, with its mean weight there."""
    few = "" if out.is_judged else f" on {out.rows} rows"
    return f"{'' if out.is_judged else 'may be '}{kind_words(out)}: {does(out.kind)}, weight {out.weight:.2f}{few}"


def kind_words(out: StandOut) -> str:
    """The name of what a head that stands out does: of its kind, or "focused"."""
    return _FOCUSED if out.kind is None else out.kind.words


def families_of(outs: Sequence[StandOut]) -> list[list[StandOut]]:
    """The heads that stand out by kind: those that find content first, then those of a place, then focused ones."""
    kinds: dict[Kind | None, list[StandOut]] = {}
    for out in outs:
        kinds.setdefault(out.kind, []).append(out)
    return sorted(kinds.values(), key=lambda heads: KINDS.index(heads[0].kind) if heads[0].kind else len(KINDS))


def others_of(summaries: Sequence[Summary], outs: Sequence[StandOut]) -> list[str]:
    """The heads that don't stand out, counted by kind: `79 first`, those of no kind last."""
    counts: Counter[str] = Counter()
    named = {(out.call, out.at) for out in outs}
    for call, summary in enumerate(summaries):
        part = summary.part(HeadKinds)
        for at in range(len(summary.place.heads)):
            kind = -1 if part is None else int(part.judged.kind[at])
            if (call, at) not in named:
                counts[KINDS[kind].words if kind >= 0 else _NO_KIND] += 1
    ordered = sorted(counts.items(), key=lambda each: (each[0] == _NO_KIND, -each[1]))
    return [f"{count} {name}" for name, count in ordered]


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
    perhaps = judged.is_high & ~judged.is_named & (judged.rows >= _FEW_ROWS)[:, None]
    focused = (peaks.weight >= max(LEAST_WEIGHT, _TIMES_UNIFORM * peaks.uniform)) & (peaks.share >= LEAST_SHARE)
    for at, named in enumerate(judged.kind.tolist()):
        few, few_placed = (next((x for x in some if perhaps[x, at]), None) for some in (_CONTENT, _PLACED))
        if named in _CONTENT:
            yield at, (named, True)
        elif few is not None:
            yield at, (few, False)
        elif named in _PLACED:
            yield at, (named, True)
        elif focused[at]:
            yield at, (few_placed, few_placed is None)
