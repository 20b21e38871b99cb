"""The heads of a text: those that stand out, in order, and all counted by what they do, in the words of all faces."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, groupby
from typing import Any

import numpy as np

from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.kinds.reducer import LEAST_ROWS, LEAST_WEIGHT, NOT_JUDGED, HeadKinds
from attn_cli.summaries.reducers.kinds.targets import BACK, CONTENT, FIRST, KINDS, PLACE, SPREAD, Kind
from attn_cli.text import counted

# Without a kind: the share on one key a row, and how much more than uniform that is.
LEAST_SHARE, _TIMES_UNIFORM = 0.5, 3
_FEW_ROWS = 4  # with a target: fewer say nothing of a head, however high its number
_NAMED = 6  # heads of a kind
FOCUSED = Kind("focused", SPREAD + 1, "gives one key a row most of what sinks don't get", "")
NO_KIND = Kind("no kind", SPREAD + 2, "does nothing that has a name on this text", "")
_WORDS = {BACK[0]: "2 to 8 back", FIRST: "first token"}


@dataclass(frozen=True)
class StandOut:
    """A head that stands out on a text by what it attends to, and the numbers that say so."""

    call: int
    at: int
    layer: int
    head: int
    kind: Kind
    is_judged: bool  # whether so many rows have a target that the kind is its name; of fewer it may be chance
    weight: float  # on the kind's targets, or on the strongest key that is no sink, mean over rows
    rows: int  # how many these are; 0 of a head that doesn't stand out, but is shown for want of another
    strongest: tuple[int, int, float] | None  # the indices of its query and key in the call, and its weight

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
        return f"{may_be}{self.kind.words}: {self.kind.does}, weight {self.weight:.2f}{few}"

    @property
    def order(self) -> tuple[float, float]:
        """A key to sort by, small for a head that says more of a text."""
        if self.kind is FOCUSED:
            return (3 if self.rows else 4), -self.weight
        return (2 if self.kind.rank != CONTENT else 0 if self.is_judged else 1), -self.weight


def standing_out(summaries: Sequence[Summary]) -> list[StandOut]:
    """The heads that stand out, those first that say most; none where no head looks at anything but sinks."""
    return sorted(chain.from_iterable(map(_of_call, count(), summaries)), key=lambda out: out.order)


def _of_call(call: int, summary: Summary) -> Iterator[StandOut]:
    part, place = summary.part(HeadKinds), summary.place
    if part is None:
        return
    judged, peaks = part.judged, part.peaks
    may_be = judged.is_high & (judged.rows >= _FEW_ROWS)[:, None]
    focused = (peaks.weight >= max(LEAST_WEIGHT, _TIMES_UNIFORM * peaks.uniform)) & (peaks.share >= LEAST_SHARE)
    for at, named in enumerate(judged.kind.tolist()):
        others = np.flatnonzero(may_be[:, at] & ~judged.is_named[:, at]).tolist()
        kinds = [(KINDS[n], n == named) for n in (named, *others) if n >= 0 and KINDS[n].rank <= PLACE]
        kind, is_judged = min(kinds, key=lambda x: (x[0].rank, not x[1]), default=(FOCUSED, True))
        if not focused[at] and (kind is FOCUSED or (kind.rank == PLACE and not is_judged)):
            continue
        rows, weight, count = peaks.counted, peaks.weight[at], peaks.counted.sum()
        if kind is not FOCUSED:
            rows = rows & (part.targets.lists[kind] == peaks.keys[at][:, None]).any(axis=1)
            weight, count = (x[KINDS.index(kind)] for x in (judged.weight[:, at], judged.rows))
        if peaks.weights[at][rows].sum() < LEAST_WEIGHT * count:  # targets that are sinks of this head
            continue
        weights = np.where(rows & (peaks.keys[at] >= 0), peaks.weights[at], 0)
        row = int(weights.argmax())
        strongest = (row, int(peaks.keys[at, row]), float(weights[row])) if weights[row] else None
        yield StandOut(call, at, place.layer, place.heads[at], kind, is_judged, float(weight), int(count), strongest)


def families_of(outs: Sequence[StandOut]) -> list[list[StandOut]]:
    """The heads that stand out by kind: those that find content first, then those of a place, then focused ones."""

    def number(out: StandOut) -> int:
        return (*KINDS, FOCUSED).index(out.kind)

    return [list(heads) for _, heads in groupby(sorted(outs, key=number), number)]


def named_kinds(summary: Summary) -> list[Kind]:
    """The kind that names each head of a call on this text; NO_KIND for none."""
    part = summary.part(HeadKinds)
    numbers = [-1] * len(summary.place.heads) if part is None else part.judged.kind.tolist()
    return [KINDS[number] if number >= 0 else NO_KIND for number in numbers]


def any_judged(summaries: Sequence[Summary]) -> bool:
    """True if any head's kind (induction ...) could be told: enough rows have a key that would define one."""
    return any((part.judged.kind != NOT_JUDGED).any() for _, part in with_part(summaries, HeadKinds))


def by_stream(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    """The summaries whose heads were judged, by the stream (self, cross ...) of their calls."""
    streams: dict[str, list[Summary]] = {}
    for summary, _ in with_part(summaries, HeadKinds):
        streams.setdefault(summary.place.stream, []).append(summary)
    return streams


def families(summaries: Sequence[Summary], *, listed: bool = False) -> list[dict[str, Any]]:
    """Rows of a table: heads counted by kind, six by name, others in more rows if `listed`."""
    rows = list[dict[str, Any]]()
    for stream, perhaps, kind, heads in _groups(summaries):
        names = ["  ".join(name for _, name in heads[at : at + _NAMED]) for at in range(0, len(heads), _NAMED)]
        row = {"family": stream + "perhaps " * perhaps + _WORDS.get(kind, kind.words), "heads": len(heads)}
        row |= {"weight": None, "strongest": ""} if kind is NO_KIND else {"weight": heads[0][0], "strongest": names[0]}
        more = names[kind is not NO_KIND :] if listed else ()
        rows += [row, *({"family": "", "heads": None, "weight": None, "strongest": each} for each in more)]
    return rows


def kinds_by_head(summaries: Sequence[Summary]) -> Iterator[tuple[Summary, int, Kind, bool, float]]:
    """Each head of a stream's calls, by its place in the call: its kind, whether few rows tell, its weight there."""
    few = {(out.call, out.at): out.kind for out in standing_out(summaries) if not out.is_judged}
    for call, (summary, part) in enumerate(with_part(summaries, HeadKinds)):
        for at, kind in enumerate(named_kinds(summary)):
            kind = few.get((call, at), kind)
            weight = 0.0 if kind is NO_KIND else float(part.judged.weight[KINDS.index(kind), at])
            yield summary, at, kind, (call, at) in few, weight


def _groups(
    summaries: Sequence[Summary], but: Sequence[StandOut] = ()
) -> Iterator[tuple[str, bool, Kind, list[tuple[float, str]]]]:
    """Heads by stream, whether few rows tell, and kind, `but` some: their weights and names, largest first."""
    streams, order = by_stream(summaries), (*KINDS, NO_KIND)
    for stream, own in streams.items():
        groups: dict[tuple[bool, int], list[tuple[float, str]]] = {}
        named = {(summaries[out.call].place, out.at) for out in but}
        for summary, at, kind, perhaps, weight in kinds_by_head(own):
            if (summary.place, at) not in named:
                group = perhaps, order.index(BACK[0] if kind in BACK else kind)
                groups.setdefault(group, []).append((weight, f"{summary.place.layer}.{summary.place.heads[at]}"))
        for (perhaps, number), heads in sorted(groups.items()):
            lead = f"{stream} " if len(streams) > 1 else ""
            yield lead, perhaps, order[number], sorted(heads, key=lambda head: -head[0])


def counts(summaries: Sequence[Summary], but: Sequence[StandOut] = ()) -> Iterator[tuple[str, Kind, bool]]:
    """`previous 4`, `first token 79` ...: heads `but` some by kind, those of none last; whether few rows tell."""
    for stream, perhaps, kind, heads in _groups(summaries, but):
        yield f"{stream}{'perhaps ' * perhaps}{_WORDS.get(kind, kind.words)} {len(heads)}", kind, perhaps


def finding(summaries: Sequence[Summary]) -> str:
    """The head that finds content most clearly, in a sentence; or that there is none, or too few tokens to tell."""
    if not any_judged(summaries):
        return f"too few tokens to name heads: a kind takes {LEAST_ROWS} rows"
    groups = [group for group in _groups(summaries) if group[2].rank == CONTENT]
    if groups:
        of_stream = [group for group in groups if group[0] == groups[0][0]]
        stream, perhaps, kind, heads = min(of_stream, key=lambda group: KINDS.index(group[2]))
        name, others = f"{stream}{heads[0][1]}", len(heads) - 1
        if perhaps:
            return f"head {name} may be of the kind {kind.words}: few rows tell"
        more = f"; {counted(others, 'other')} do{'es' * (others == 1)}, too" if others else ""
        return f"head {name} {kind.does}{more}"
    if any(token.row is not None for token in summaries[0].queries):  # patches, of which none repeats another
        return "no head finds content: patches don't repeat"
    return "no head looks at what followed a token before, or at the same token"
