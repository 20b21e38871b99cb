"""Heads in words: what the heads of a kind look at, and what one head reads most. All screens and pages say it so."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.kinds import (
    BACK,
    DELIMITER,
    DUPLICATE,
    FIRST,
    INDUCTION,
    KINDS,
    NEXT,
    PREVIOUS,
    SELF,
    UNIFORM,
    WINDOW,
    Kind,
)
from attn_cli.summaries.reducers.kinds.head_kinds import HeadKinds
from attn_cli.summaries.reducers.kinds.kind_sums import NOT_JUDGED, NOTHING
from attn_cli.summaries.standing_out import StandOut

_LEAST_READ = 0.1  # of a row on a key that the head is said to read there
LOOKS = {
    INDUCTION: "at what followed the same token before (induction)",
    DUPLICATE: "at the same token elsewhere (duplicate)",
    PREVIOUS: "at the token before (previous)",
    NEXT: "at the token after (next)",
    SELF: "at the token itself (self)",
    **{kind: f"{kind.back} tokens back" for kind in BACK},
    FIRST: "at the first token, which is mostly a sink (first)",
    DELIMITER: "at punctuation and special tokens (delimiter)",
    WINDOW: "at the few tokens around (window)",
    UNIFORM: "at all tokens alike (uniform)",
}
"""What a head of each kind looks at: `looks at the token before`."""
BACK_TOGETHER = "2 to 8 tokens back"


class Reading(NamedTuple):
    """A query, the key past the sinks that it reads most, and the weight on it."""

    query: Token
    key: Token
    weight: float


class Family(NamedTuple):
    """The heads of one kind, or of several kinds that go together.

    looks  what they look at
    kind   the first of its kinds; None for heads that no kind names
    heads  their names and the mean weight on their targets, sinks excluded, largest first
    """

    looks: str
    kind: Kind | None
    heads: list[tuple[str, float]]


def families(summaries: Sequence[Summary]) -> list[Family]:
    """The heads of every kind that any head is of, in the order of kinds; last those that look at nothing in common."""
    kinds: dict[str, Family] = {}
    rest: list[tuple[str, float]] = []
    for summary in summaries:
        part = summary.part(HeadKinds)
        if part is None:
            continue
        for at, (head, number) in enumerate(zip(summary.place.heads, part.judged.kind.tolist(), strict=True)):
            name = f"{summary.place.layer}.{head}"
            if number in (NOTHING, NOT_JUDGED):
                rest.append((name, 0.0))
                continue
            kind = KINDS[number]
            looks = BACK_TOGETHER if kind in BACK else LOOKS[kind]
            own = kinds.setdefault(looks, Family(looks, kind, []))
            own.heads.append((name, float(part.judged.weight[number, at])))
    found = sorted(kinds.values(), key=lambda family: KINDS.index(family.kind) if family.kind else 0)
    for family in found:
        family.heads.sort(key=lambda head: -head[1])
    return [*found, *([Family("at nothing in common", None, rest)] if rest else [])]


def readings(summary: Summary, at: int, count: int = 3) -> list[Reading]:
    """What one head of a call reads most past its sinks: the last row first if it reads anything, then the sharpest."""
    part = summary.part(HeadKinds)
    if part is None or not len(summary.queries):
        return []
    keys, weights = part.peaks.keys[at], part.peaks.weights[at]
    rows = [row for row in np.argsort(-weights, kind="stable").tolist() if row > 0 and keys[row] >= 0]
    last = len(summary.queries) - 1
    ordered = ([last] if last in rows else []) + [row for row in rows if row != last]
    found = [Reading(summary.queries[row], summary.keys[keys[row]], float(weights[row])) for row in ordered]
    return [reading for reading in found if reading.weight >= _LEAST_READ][:count]


def what_it_does(out: StandOut) -> str:
    """What a head that stands out does, with the number that says so: `looks at the token before (previous): 0.81`."""
    if out.kind is None:
        return f"gives one token {out.weight:.2f} of a row, sinks excluded"
    few = "" if out.is_judged else f", of {out.rows} rows only"
    return f"looks {LOOKS[out.kind]}: {out.weight:.2f}{few}; uniform attention {out.baseline:.2f}"
