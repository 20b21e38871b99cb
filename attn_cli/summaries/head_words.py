"""The work of heads on a text in words: sentences, families and the map of all heads, the same on every face."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.kinds.head_kinds import CONTENT, KINDS, PLACE, Kind
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.standing_out import StandOut, standing_out

FOCUSED, NONE = "*", "·"  # the letters of heads without a kind: that give one key a row most, and all others
_FOCUSED_WORDS, _NO_KIND = "focused", "no kind"
_LEAST_READ = 0.1  # of a row on a key that the head is said to read there


@dataclass(frozen=True)
class Family:
    """The heads that stand out on a text by attending to the same kind of key, such as the one before.

    name    of the kind; "focused" for heads of no kind that give one key a row most of what sinks don't get
    letter  that stands for it in a map of heads
    does    what one of its heads does, as a phrase
    heads   those that stand out, the largest weights on keys of the kind first
    """

    name: str
    letter: str
    does: str
    heads: tuple[StandOut, ...]


@dataclass(frozen=True, eq=False)
class HeadWork:
    """What the heads of all calls attend to on a text, in words and letters.

    outs      the heads that stand out: those that find content (induction, duplicate) first, then those of a place
              (previous token ...), then those of no kind
    families  these heads by what they do, in the same order
    letters   for every call and head the letter of its kind
    weights   for every call and head the mean weight on the keys by which it stands out, NaN where it doesn't
    does      for every call and head what it does, "" for nothing that has a name
    others    the heads that don't stand out, counted by the name of their kind; those of none by "no kind"
    """

    outs: tuple[StandOut, ...]
    families: tuple[Family, ...]
    letters: tuple[tuple[str, ...], ...]
    weights: tuple[np.ndarray, ...]
    does: tuple[tuple[str, ...], ...]
    others: tuple[tuple[str, int], ...]

    def of(self, call: int, at: int) -> StandOut | None:
        """Head number `at` of call number `call`, both from 0, with the numbers by which it stands out;
        None if it doesn't.
        """
        return next((out for out in self.outs if (out.call, out.at) == (call, at)), None)


def does(kind: Kind | None) -> str:
    """What a head of a kind (induction ...) attends to, as a phrase; for None, what one of no kind does."""
    return "gives one key a row most of what sinks don't get" if kind is None else kind.does


def sentence(out: StandOut) -> str:
    """A sentence on what a head that stands out attends to, with its mean weight there."""
    name = _FOCUSED_WORDS if out.kind is None else out.kind.words
    few = "" if out.is_judged else f" on {out.rows} rows"
    return f"{'' if out.is_judged else 'may be '}{name}: {does(out.kind)}, weight {out.weight:.2f}{few}"


def readings(summary: Summary, at: int, count: int = 3) -> list[tuple[Token, Token, float]]:
    """Up to `count` queries of head number `at`, each with its strongest key that is no sink, and that weight.

    Weights below 0.1 are left out.
    """
    part = summary.part(HeadKinds)
    if part is None or not len(summary.queries):
        return []
    keys, weights = part.peaks.keys[at], part.peaks.weights[at]
    rows = [row for row in np.argsort(-weights, kind="stable").tolist() if row > 0 and keys[row] >= 0]
    last = len(summary.queries) - 1
    ordered = ([last] if last in rows else []) + [row for row in rows if row != last]
    found = [(summary.queries[row], summary.keys[keys[row]], float(weights[row])) for row in ordered]
    return [reading for reading in found if reading[2] >= _LEAST_READ][:count]


def work_of(summaries: Sequence[Summary]) -> HeadWork:
    """What each head of these calls attends to, by their parts `HeadKinds`; without, heads are of no kind."""
    outs = standing_out(summaries)
    letters, weights, work = [], [], []
    counts: Counter[str] = Counter()
    of_head = {(out.call, out.at): out for out in outs}
    for call, summary in enumerate(summaries):
        heads = len(summary.place.heads)
        part = summary.part(HeadKinds)
        kinds = [-1] * heads if part is None else part.judged.kind.tolist()
        weights.append(np.array([of_head[call, at].weight if (call, at) in of_head else np.nan for at in range(heads)]))
        letters.append(tuple(_letter(of_head.get((call, at)), kinds[at]) for at in range(heads)))
        own = [of_head[call, at].kind if (call, at) in of_head else KINDS[kind] if kind >= 0 else None
               for at, kind in enumerate(kinds)]  # fmt: skip
        work.append(
            tuple("" if kind is None and (call, at) not in of_head else does(kind) for at, kind in enumerate(own))
        )
        for at, kind in enumerate(kinds):
            if (call, at) not in of_head:
                counts[KINDS[kind].words if kind >= 0 else _NO_KIND] += 1
    others = sorted(counts.items(), key=lambda each: (each[0] == _NO_KIND, -each[1]))
    return HeadWork(tuple(outs), _families(outs), tuple(letters), tuple(weights), tuple(work), tuple(others))


def _letter(out: StandOut | None, kind: int) -> str:
    if out is not None:
        return FOCUSED if out.kind is None else out.kind.letter
    return KINDS[kind].letter.lower() if kind >= 0 else NONE


def _families(outs: Sequence[StandOut]) -> tuple[Family, ...]:
    kinds: list[Kind | None] = [kind for kind in KINDS if kind.rank in (CONTENT, PLACE)]
    families = []
    for kind in (*kinds, None):
        heads = tuple(out for out in outs if out.kind == kind)
        if heads:
            name, letter = (_FOCUSED_WORDS, FOCUSED) if kind is None else (kind.words, kind.letter)
            families.append(Family(name, letter, does(kind), heads))
    return tuple(families)
