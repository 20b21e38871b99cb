"""Kinds of heads: what a head looks at, held against a baseline.

Each kind names for every query a set of target keys; a head is of the kind whose targets it gives much more weight than
uniform attention would. The kinds are known from the literature: induction heads (Olsson et al. 2022), previous and
duplicate token heads (Wang et al. 2023), heads on delimiters (Clark et al. 2019), sinks (Xiao et al. 2023).
"""

from typing import NamedTuple


class Kind(NamedTuple):
    """One kind of head.

    letter    in a grid of heads
    name      in Python and machine output: `<name>_weight`, `<name>_baseline`
    words     in a legend
    meaning   what the JSON Schema says of its targets
    rank      kinds of a smaller rank go first, where a head could be named by several
    back      where its only target is the key so many places before the query, which number; None elsewhere
    """

    letter: str
    name: str
    words: str
    meaning: str
    rank: int
    back: int | None = None


CONTENT, PLACE, MARKS, SPREAD = range(4)  # ranks

INDUCTION = Kind("I", "induction", "induction", "the keys after earlier places of the query's token", CONTENT)
DUPLICATE = Kind("D", "duplicate", "duplicate", "earlier places of the query's token; in encoders all others", CONTENT)
PREVIOUS = Kind("P", "previous", "previous", "the key before the query", PLACE, 1)
NEXT = Kind("N", "next", "next", "the key after the query", PLACE, -1)
SELF = Kind("S", "self", "self", "the query's own place", PLACE, 0)
BACK = tuple(
    Kind(str(k), f"back{k}", f"{k} back", f"the key {k} places before the query", PLACE, k) for k in range(2, 9)
)
FIRST = Kind("F", "first", "first", "key 0, and the learned sink where there is one", MARKS)
DELIMITER = Kind(".", "delimiter", "delimiter", "special tokens but the first, and punctuation", MARKS)
WINDOW = Kind("W", "window", "window", "keys at most 4 places away", SPREAD)
UNIFORM = Kind("U", "uniform", "uniform", "no target: entropy over that of uniform attention", SPREAD)

KINDS = (INDUCTION, DUPLICATE, PREVIOUS, NEXT, SELF, *BACK, FIRST, DELIMITER, WINDOW, UNIFORM)
