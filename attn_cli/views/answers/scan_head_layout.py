"""How much of a head of a scan is drawn, so that it fits its screen."""

from typing import NamedTuple

MOST_EXAMPLES = 3


class HeadLayout(NamedTuple):
    """How much of a head is drawn.

    examples  how many, at most
    ranges    of distance, at most: neighbours with little weight become one; None for all, 0 for no bars
    spaced    whether sections stand apart, and lists of kinds, tokens and parts go on over a second line
    table     whether statistics have a line each
    tokens    whether there are lists of tokens
    """

    examples: int = MOST_EXAMPLES
    ranges: int | None = None
    spaced: bool = True
    table: bool = True
    tokens: bool = True
