"""What follows from the tokens alone is worked out once: the same ones come again with every layer."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TypeVar

from attn_cli.prompt import Token

Made = TypeVar("Made")

_MOST = 16


def remembered(make: Callable[[Sequence[Token]], Made]) -> Callable[[Sequence[Token]], Made]:
    """`make`, which is asked once for the same tokens: the same object, not to be changed, as what is made of it.

    The last few are kept. Compared by identity, because comparing long texts takes as long as most of what is made.
    """
    known: dict[int, tuple[Sequence[Token], Made]] = {}

    @wraps(make)
    def found(tokens: Sequence[Token]) -> Made:
        entry = known.get(id(tokens))
        if entry is None or entry[0] is not tokens:
            while len(known) >= _MOST:
                known.pop(next(iter(known)))
            entry = known[id(tokens)] = tokens, make(tokens)
        return entry[1]

    return found
