"""The heads of a text counted by what they do; the words are those of `head_words`."""

from collections.abc import Sequence
from typing import NamedTuple

from attn_cli.summaries.head_words import does
from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.reducers.kinds.head_kinds import BACK, FIRST, KINDS, Kind
from attn_cli.summaries.reducers.kinds.kind_sums import NOT_JUDGED, NOTHING
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.standing_out import StandOut, on_few_rows


class CountedKind(NamedTuple):
    """The heads of one kind, or of several kinds that go together.

    does   what one of them attends to, as a phrase
    kind   the first of its kinds; None for heads that no kind names
    heads  their names, such as "18.6", and the mean weight on the keys that define the kind, largest first
    """

    does: str
    kind: Kind | None
    heads: list[tuple[str, float]]


class HeadFamilies(NamedTuple):
    """All heads by what they attend to.

    counted  a group for each kind that any head is of, in the order of `KINDS`; kinds of 2 to 8 tokens back are one
             group, and last come heads that fit no kind
    few      the heads that may be of a kind, on too few rows (4 to 15) to be named by it; they are in no group
    """

    counted: list[CountedKind]
    few: list[StandOut]


def any_judged(summaries: Sequence[Summary]) -> bool:
    """True if any head's kind (induction ...) could be told: enough rows have a key that would define one."""
    return any((part.judged.kind != NOT_JUDGED).any() for _, part in with_part(summaries, HeadKinds))


def families(summaries: Sequence[Summary]) -> HeadFamilies:
    """All heads of these calls in groups, by the kinds (induction, previous token ...) in their parts `HeadKinds`."""
    kinds: dict[str, CountedKind] = {}
    rest: list[tuple[str, float]] = []
    few = on_few_rows(summaries)
    for call, summary in enumerate(summaries):
        part = summary.part(HeadKinds)
        if part is None:
            continue
        for at, (head, number) in enumerate(zip(summary.place.heads, part.judged.kind.tolist(), strict=True)):
            if (call, at) in few:
                continue
            name = f"{summary.place.layer}.{head}"
            if number in (NOTHING, NOT_JUDGED):
                rest.append((name, 0.0))
                continue
            kind = KINDS[number]
            work = "looks 2 to 8 tokens back" if kind in BACK else f"{does(kind)} ({kind.words})"
            own = kinds.setdefault(work, CountedKind(work, kind, []))
            own.heads.append((name, float(part.judged.weight[number, at])))
    found = sorted(kinds.values(), key=lambda family: KINDS.index(family.kind) if family.kind else 0)
    for family in found:
        family.heads.sort(key=lambda head: -head[1])
    if rest:
        found.append(CountedKind("fits no kind", None, rest))
    return HeadFamilies(found, list(few.values()))


def work_in_words(summary: Summary, at: int) -> str:
    """What one head of a call attends to on this text, as a phrase; "" where it fits no kind, or rests on sinks."""
    part = summary.part(HeadKinds)
    number = -1 if part is None else int(part.judged.kind[at])
    return does(KINDS[number]) if number >= 0 and KINDS[number] is not FIRST else ""
