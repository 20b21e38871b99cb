"""The heads of a text: those that stand out, in order, and all counted by what they do, in the words of all faces."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.kinds.reducer import LEAST_ROWS, LEAST_WEIGHT, NOT_JUDGED, HeadKinds
from attn_cli.summaries.reducers.kinds.targets import BACK, CONTENT, FIRST, KINDS, PLACE, Kind
from attn_cli.text import counted

# Without a kind: the share on one key a row, and how much more than uniform that is.
LEAST_SHARE, _TIMES_UNIFORM = 0.5, 3
_FEW_ROWS = 4  # with a target: fewer say nothing of a head, however high its number
_NAMED = 6  # heads of a kind
_CONTENT, _PLACED = ([at for at, kind in enumerate(KINDS) if kind.rank == rank] for rank in (CONTENT, PLACE))
_FOCUSED, _NO_KIND, _PERHAPS = "focused", "no kind", "perhaps "


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
    rows: int
    strongest: tuple[int, int, float] | None

    @property
    def name(self) -> str:
        """The head's name on a command line, layer and head: `18.6`."""
        return f"{self.layer}.{self.head}"

    @property
    def sentence(self) -> str:
        """What it attends to, with its mean weight there."""
        if not self.rows:
            return f"a row's strongest key past sinks gets {self.weight:.2f}, mean over rows"
        may_be, few = ("", "") if self.is_judged else ("may be ", f" on {self.rows} rows")
        return f"{may_be}{kind_words(self)}: {does(self.kind)}, weight {self.weight:.2f}{few}"

    @property
    def order(self) -> tuple[float, float]:
        """A key to sort by, small for a head that says more of a text."""
        if self.kind is None:
            return (3 if self.rows else 4), -self.weight
        return (2 if self.kind.rank != CONTENT else 0 if self.is_judged else 1), -self.weight


def standing_out(summaries: Sequence[Summary]) -> list[StandOut]:
    """The heads that stand out, those first that say most; none where no head looks at anything but sinks."""
    found = [out for call, summary in enumerate(summaries) for out in _of_call(call, summary)]
    return sorted(found, key=lambda out: out.order)


def _of_call(call: int, summary: Summary) -> Iterator[StandOut]:
    part, place = summary.part(HeadKinds), summary.place
    if part is None:
        return
    judged, peaks = part.judged, part.peaks
    perhaps = judged.is_high & ~judged.is_named & (judged.rows >= _FEW_ROWS)[:, None]
    focused = (peaks.weight >= max(LEAST_WEIGHT, _TIMES_UNIFORM * peaks.uniform)) & (peaks.share >= LEAST_SHARE)
    for at, named in enumerate(judged.kind.tolist()):
        few, few_placed = (next((x for x in some if perhaps[x, at]), None) for some in (_CONTENT, _PLACED))
        number, is_judged = named, True
        if named not in _CONTENT and few is not None:
            number, is_judged = few, False
        elif named not in (*_CONTENT, *_PLACED):
            if not focused[at]:
                continue
            number, is_judged = few_placed, few_placed is None
        if number is None:
            kind, rows = None, peaks.counted
            weight, count = peaks.weight[at], rows.sum()
        else:
            kind = KINDS[number]
            rows = part.reading_rows(at, kind)
            weight, count = judged.weight[number, at], judged.rows[number]
            if peaks.weights[at][rows].sum() < LEAST_WEIGHT * count:  # targets that are sinks of this head
                continue
        weights = np.where(rows & (peaks.keys[at] >= 0), peaks.weights[at], 0)
        row = int(weights.argmax())
        strongest = (row, int(peaks.keys[at, row]), float(weights[row])) if weights[row] else None
        lead = call, at, place.layer, place.heads[at]
        yield StandOut(*lead, kind, is_judged, float(weight), int(count), strongest)


def does(kind: Kind | None) -> str:
    """What a head of a kind (induction ...) attends to, as a phrase; for None, what one of no kind does."""
    return "gives one key a row most of what sinks don't get" if kind is None else kind.does


def kind_words(out: StandOut) -> str:
    """The name of what a head that stands out does: of its kind, or "focused"."""
    return _FOCUSED if out.kind is None else out.kind.words


def families_of(outs: Sequence[StandOut]) -> list[list[StandOut]]:
    """The heads that stand out by kind: those that find content first, then those of a place, then focused ones."""
    kinds: dict[Kind | None, list[StandOut]] = {}
    for out in outs:
        kinds.setdefault(out.kind, []).append(out)
    return sorted(kinds.values(), key=lambda heads: KINDS.index(heads[0].kind) if heads[0].kind else len(KINDS))


def named_kind(summary: Summary, at: int) -> Kind | None:
    """The kind that names one head of a call on this text; None for none."""
    part = summary.part(HeadKinds)
    number = -1 if part is None else int(part.judged.kind[at])
    return KINDS[number] if number >= 0 else None


def any_judged(summaries: Sequence[Summary]) -> bool:
    """True if any head's kind (induction ...) could be told: enough rows have a key that would define one."""
    return any((part.judged.kind != NOT_JUDGED).any() for _, part in with_part(summaries, HeadKinds))


def by_stream(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    """The summaries whose heads were judged, by the stream (self, cross ...) of their calls."""
    streams: dict[str, list[Summary]] = {}
    for summary, _ in with_part(summaries, HeadKinds):
        streams.setdefault(summary.place.stream, []).append(summary)
    return streams


def families(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """Rows of a table: heads counted by kind in the order of `KINDS`, those of none, and those that may be of one."""
    streams = by_stream(summaries)
    return [
        {
            "family": (f"{stream} " if len(streams) > 1 else "") + _PERHAPS * perhaps + _family(kind),
            "heads": len(heads),
            "weight": heads[0][0] if kind else None,
            "strongest": "  ".join(head for _, head in heads[:_NAMED]) if kind else "",
        }
        for stream, own in streams.items()
        for perhaps, kind, heads in _groups(own)
    ]


def _groups(summaries: Sequence[Summary]) -> list[tuple[bool, Kind | None, list[tuple[float, str]]]]:
    """Heads by whether few rows tell, and kind, those of 2 to 8 back as one: their weights and names, largest first."""
    groups: dict[tuple[bool, int], list[tuple[float, str]]] = {}
    few = {(out.call, out.at): out for out in standing_out(summaries) if not out.is_judged}
    for call, (summary, part) in enumerate(with_part(summaries, HeadKinds)):
        for at, head in enumerate(summary.place.heads):
            out = few.get((call, at))
            kind = named_kind(summary, at) if out is None else out.kind
            weight = 0.0 if kind is None else float(part.judged.weight[KINDS.index(kind), at])
            number = len(KINDS) if kind is None else KINDS.index(BACK[0] if kind in BACK else kind)
            groups.setdefault((out is not None, number), []).append((weight, f"{summary.place.layer}.{head}"))
    return [
        (perhaps, KINDS[number] if number < len(KINDS) else None, sorted(heads, key=lambda head: -head[0]))
        for (perhaps, number), heads in sorted(groups.items())
    ]


def counts(summaries: Sequence[Summary]) -> list[str]:
    """`previous 4`, `first token 79` ...: how many heads are of each kind, those of none last."""
    return [f"{row['family']} {row['heads']}" for row in families(summaries)]


def _family(kind: Kind | None) -> str:
    if kind is None:
        return _NO_KIND
    return "2 to 8 back" if kind in BACK else "first token" if kind is FIRST else kind.words


def finding(summaries: Sequence[Summary]) -> str:
    """The head that finds content most clearly, in a sentence; or that there is none, or too few tokens to tell."""
    if not any_judged(summaries):
        return f"too few tokens to name heads: a kind takes {LEAST_ROWS} rows"
    streams = by_stream(summaries)
    for stream, own in streams.items():
        found = [(KINDS.index(kind), perhaps, kind, heads) for perhaps, kind, heads in _groups(own)
                 if kind is not None and kind.rank == CONTENT]  # fmt: skip
        for _, perhaps, kind, heads in sorted(found)[:1]:
            name = f"{f'{stream} ' if len(streams) > 1 else ''}{heads[0][1]}"
            if perhaps:
                return f"head {name} may be of the kind {kind.words}: few rows tell"
            others = len(heads) - 1
            more = f"; {counted(others, 'other')} do{'es' * (others == 1)}, too" if others else ""
            return f"head {name} {does(kind)}{more}"
    if any(token.row is not None for token in summaries[0].queries):  # patches, of which none repeats another
        return "no head finds content: patches don't repeat"
    return "no head looks at what followed a token before, or at the same token"
