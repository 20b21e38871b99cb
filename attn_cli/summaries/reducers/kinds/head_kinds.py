"""Kinds of heads: what a head looks at, compared with uniform attention.

A head is of the kind whose targets, a set of keys for every query, it gives much more weight than uniform attention.
The kinds are known: induction (Olsson et al. 2022), previous and duplicate token (Wang et al. 2023), delimiters (Clark
et al. 2019), sinks (Xiao et al. 2023).
"""

from typing import NamedTuple

CONTENT, PLACE, MARKS, SPREAD = range(4)  # ranks


class Kind(NamedTuple):
    """A kind of attention head, defined by the keys that it attends to, its targets.

    name      in Python and machine output: `<name>_weight` on targets, `<name>_baseline` of uniform attention
    rank      where several kinds fit a head, one of a smaller rank names it
    back      how many places before the query its only target is (0 the query itself, -1 the next); None for others
    """

    name: str
    rank: int
    does: str
    meaning: str
    back: int | None = None

    @property
    def words(self) -> str:
        """The name of the kind on screens."""
        return self.name if self.back is None or self.back < 2 else f"{self.back} back"


INDUCTION = Kind(
    "induction",
    CONTENT,
    "looks at what followed this token before",
    "the keys after earlier places of the query's token",
)
DUPLICATE = Kind(
    "duplicate",
    CONTENT,
    "looks at this token's other places",
    "earlier places of the query's token; in encoders all others",
)
PREVIOUS = Kind("previous", PLACE, "looks at the token before", "the key before the query", 1)
NEXT = Kind("next", PLACE, "looks at the token after", "the key after the query", -1)
SELF = Kind("self", PLACE, "looks at its own token", "the query's own place", 0)
BACK = tuple(
    Kind(f"back{k}", PLACE, f"looks {k} tokens back", f"the key {k} places before the query", k) for k in range(2, 9)
)
FIRST = Kind("first", MARKS, "rests on the first token", "key 0, and the learned sink where there is one")
DELIMITER = Kind(
    "delimiter", MARKS, "looks at punctuation and special tokens", "special tokens but the first, and punctuation"
)
WINDOW = Kind("window", SPREAD, "looks at tokens at most 4 away", "keys at most 4 places away")
UNIFORM = Kind(
    "uniform", SPREAD, "spreads evenly over all it may see", "no target: entropy over that of uniform attention"
)

KINDS = (INDUCTION, DUPLICATE, PREVIOUS, NEXT, SELF, *BACK, FIRST, DELIMITER, WINDOW, UNIFORM)
