"""What a sink is: a key to which heads give weight that they have no use for (Xiao et al. 2023).

Two questions are answered here. Which keys will be sinks, before anything has been computed: `expected_sinks`. And
which keys of a head are sinks, by what they receive: `is_sink`. A learned sink, which is no key, is neither.
"""

from collections.abc import Sequence

import numpy as np

from attn_cli.arrays import indices, to_numpy
from attn_cli.call import Call
from attn_cli.prompt import Token
from attn_cli.summaries.calls.memo import memoised

MOST_OF_A_KEY = 0.3  # the reception of a sink (Gu et al. 2024)
TIMES_CHANCE = 3  # on a few tokens even attention gives a key that much
SHORT_VALUE, LONG_RESIDUAL = 0.5, 3.0  # times the median length: a sink has a shorter value, or a longer vector
FEW_KEYS = 8  # rows that may see fewer say little: they are left out where there are others


def expected_sinks(call: Call) -> np.ndarray:
    """The keys of `call` at which sinks are to be expected, ascending.

    Key 0 where the first query sees nothing after itself, so in causal self-attention; elsewhere the special tokens,
    such as [CLS] and [SEP]. They are known before a model has run: no second pass is needed to hide them.
    """
    if call.place.stream != "cross" and not _first_looks_ahead(call):
        return np.zeros(min(1, call.m), dtype=np.int64)
    return special_places(call.keys)


def _first_looks_ahead(call: Call) -> bool:
    """Whether query 0 may attend to a key after itself."""
    own = max(call.m - call.n, 0)
    if call.rule.mask.span(0, 1, call.m).last <= own + 1:
        return False
    i, j = indices(0, 1, call.like), indices(own + 1, call.m, call.like)
    return bool(to_numpy(call.rule.mask.allowed(i[:, None], j[None])).any())


@memoised
def special_places(tokens: Sequence[Token]) -> np.ndarray:
    """The places of special tokens, ascending."""
    return np.array([place for place, token in enumerate(tokens) if token.special], dtype=np.int64)


def is_sink(reception: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Which keys `[h, m]` are sinks of a head.

    reception  the mean weight `[h, m]` on a key over the rows that may see it, rows that see fewer than `FEW_KEYS` keys
               left out where there are others
    chance     what even attention would give it `[m]`: the mean of 1 / keys seen, over the same rows
    """
    return (reception > MOST_OF_A_KEY) & (reception > TIMES_CHANCE * chance)
