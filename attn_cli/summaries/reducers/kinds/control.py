"""The control of kinds whose targets are repeats: keys as far away as targets are, that are none.

A head that looks so far back whatever stands there gives these as much. Which keys are drawn depends on the seed, the
kind, the query's place and the text's tokens alone, so that a text by itself and one of a corpus have the same control.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from attn_cli.summaries.reducers.kinds import INDUCTION, KINDS, Kind

DRAWN = 16  # keys per row
_TRIED = 4 * DRAWN


class DrawnFrom(NamedTuple):
    """What the control of Q queries is drawn from.

    begin, stop  the first row of each query's text, and the one after its last `[Q]`
    distances    query less key of targets, text after text
    first, total  where those of each query's text begin, and how many they are `[Q]`
    shares       numbers below 1 by which distances are chosen `[Q, 64]`, as `shares_of` makes them
    """

    begin: np.ndarray
    stop: np.ndarray
    distances: np.ndarray
    first: np.ndarray
    total: np.ndarray
    shares: np.ndarray


def shares_of(seed: int, kind: Kind, places: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Even random numbers from 0 to 1 `[Q, 64]` for queries at these places of texts with these offsets `[Q]`.

    Every place has numbers of its own, which each text moves by its offset (Cranley and Patterson 1976).
    """
    random = np.random.default_rng((seed, KINDS.index(kind)))
    moved = random.random((int(places.max(initial=-1)) + 1, _TRIED))[places] + offsets[:, None]
    return np.where(moved >= 1, moved - 1, moved)


def offset_of(ids: Sequence[int] | np.ndarray) -> float:
    """A number from 0 to 1 that is a text's own, by the numbers of its tokens."""
    digest = blake2b(np.asarray(ids, np.int64).tobytes(), digest_size=4).digest()
    return int.from_bytes(digest, "little") / 2**32


def drawn_keys(kind: Kind, queries: np.ndarray, names: np.ndarray, sinks: np.ndarray, source: DrawnFrom) -> np.ndarray:
    """Keys `[Q, 16]` as far from each query as targets are from queries of its text, that are neither target nor sink.

    queries  their rows `[Q]`
    names    of the tokens of all R rows, texts side by side: equal for repeats of one text
    sinks    whether a sink is expected at each row `[R]`

    -1 after the last of a query.
    """
    chosen = source.first[:, None] + (source.shares * source.total[:, None]).astype(np.int64)
    keys = queries[:, None] - source.distances[chosen]
    begin = source.begin[:, None]
    inside = (keys >= begin) & (keys < source.stop[:, None])
    named = keys - (kind is INDUCTION)  # the token whose earlier place makes this key a target
    own = names[queries][:, None]
    is_target = (named >= begin) & (names[np.clip(named, 0, len(names) - 1)] == own) & (named != queries[:, None])
    good = inside & ~is_target & ~sinks[np.clip(keys, 0, len(names) - 1)]
    order = np.argsort(~good, axis=1, kind="stable")[:, :DRAWN]
    return np.take_along_axis(np.where(good, keys, -1), order, axis=1)
