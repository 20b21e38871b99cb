"""A cache for functions of tokens: all layers of a model have the same tokens."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TypeVar

from attn_cli.prompt import Token

Result = TypeVar("Result")

_CAPACITY = 64


def memoised(make: Callable[[Sequence[Token]], Result]) -> Callable[[Sequence[Token]], Result]:
    """A function that returns make(tokens), and keeps its last 64 results; don't mutate them."""
    cache: dict[int, tuple[Sequence[Token], Result]] = {}

    @wraps(make)
    def cached(tokens: Sequence[Token]) -> Result:
        entry = cache.get(id(tokens))
        if entry is None or entry[0] is not tokens:
            while len(cache) >= _CAPACITY:
                cache.pop(next(iter(cache)))
            entry = cache[id(tokens)] = tokens, make(tokens)
        return entry[1]

    return cached
