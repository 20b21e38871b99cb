"""Kinds of heads: what a head looks at, held against a baseline.

A head is of the kind whose targets, a set of keys for every query, it gives much more weight than uniform attention.
The kinds are known: induction (Olsson et al. 2022), previous and duplicate token (Wang et al. 2023), delimiters (Clark
et al. 2019), sinks (Xiao et al. 2023).
"""

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of attention head, defined by the keys that it attends to, its targets.

    name      in Python and machine output: `<name>_weight` on targets, `<name>_baseline` of uniform attention
    rank      where several kinds fit a head, one of a smaller rank names it
    back      how many places before the query its only target is (0 the query itself, -1 the next); None for others
    """

    name: str
    words: str
    does: str
    meaning: str
    rank: int
    back: int | None = None


CONTENT, PLACE, MARKS, SPREAD = range(4)  # ranks

INDUCTION = Kind(
    "induction",
    "induction",
    "looks at what followed this token before",
    "the keys after earlier places of the query's token",
    CONTENT,
)
DUPLICATE = Kind(
    "duplicate",
    "duplicate",
    "looks at this token's other places",
    "earlier places of the query's token; in encoders all others",
    CONTENT,
)
PREVIOUS = Kind("previous", "previous", "looks at the token before", "the key before the query", PLACE, 1)
NEXT = Kind("next", "next", "looks at the token after", "the key after the query", PLACE, -1)
SELF = Kind("self", "self", "looks at its own token", "the query's own place", PLACE, 0)
BACK = tuple(
    Kind(f"back{k}", f"{k} back", f"looks {k} tokens back", f"the key {k} places before the query", PLACE, k)
    for k in range(2, 9)
)
FIRST = Kind("first", "first", "rests on the first token", "key 0, and the learned sink where there is one", MARKS)
DELIMITER = Kind(
    "delimiter",
    "delimiter",
    "looks at punctuation and special tokens",
    "special tokens but the first, and punctuation",
    MARKS,
)
WINDOW = Kind("window", "window", "looks at tokens at most 4 away", "keys at most 4 places away", SPREAD)
UNIFORM = Kind("uniform", "uniform", "spreads evenly over all it may see",
               "no target: entropy over that of uniform attention", SPREAD)  # fmt: skip

KINDS = (INDUCTION, DUPLICATE, PREVIOUS, NEXT, SELF, *BACK, FIRST, DELIMITER, WINDOW, UNIFORM)
PLACED = tuple(kind for kind in KINDS if kind.back is not None)
"""The kinds with one target, at a fixed distance."""
