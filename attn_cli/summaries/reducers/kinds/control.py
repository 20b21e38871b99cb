"""The control of kinds whose targets are repeats: keys as far away, drawn by seed, kind, place and tokens alone."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from attn_cli.summaries.reducers.kinds.head_kinds import INDUCTION, KINDS, Kind

DRAWN = 16  # keys per row
_TRIED = 4 * DRAWN


class TextRows(NamedTuple):
    """R query rows of one text, or of many side by side, in which each row's token is also a key.

    begin, stop   the first row of each row's text, and the one after its last `[R]`
    names         a number for each token, equal for the same token of one text `[R]`
    at_sink       True at each row at which a sink is expected `[R]`
    offsets       a hash of each row's text, 0 to 1, which moves the random draws for it `[R]`
    delimiters    True at special tokens after the first, and at punctuation `[R]`
    """

    begin: np.ndarray
    stop: np.ndarray
    names: np.ndarray
    at_sink: np.ndarray
    offsets: np.ndarray
    delimiters: np.ndarray


class DrawnFrom(NamedTuple):
    """The distances, query less key, at which control keys are drawn; `first` and `total` `[R]` are a text's part."""

    distances: np.ndarray
    first: np.ndarray
    total: np.ndarray

    @classmethod
    def of(cls, targets: np.ndarray, rows: TextRows) -> "DrawnFrom":
        """The distances of all targets (keys that define a kind of head) from their queries, to draw random keys at."""
        queries, distances = distances_of(targets)
        bounds = np.searchsorted(queries, [rows.begin, rows.stop])
        return cls(distances, bounds[0], bounds[1] - bounds[0])


def distances_of(targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For all targets (keys that define a kind) the row `[targets]`, and the distance, row less key, `[targets]`."""
    queries, columns = np.nonzero(targets >= 0)
    return queries, queries - targets[queries, columns]


def shares_of(seed: int, kind: Kind, places: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Random numbers from 0 to 1 `[Q, 64]`, 64 draws for each of Q queries, others for each seed and kind of head."""
    random = np.random.default_rng((seed, KINDS.index(kind)))
    moved = random.random((int(places.max(initial=-1)) + 1, _TRIED))[places] + offsets[:, None]
    return np.where(moved >= 1, moved - 1, moved)


def offset_of(ids: Sequence[int] | np.ndarray) -> float:
    """A hash of a text's token ids as a number from 0 to 1, which moves the random draws for it."""
    digest = blake2b(np.asarray(ids, np.int64).tobytes(), digest_size=4).digest()
    return int.from_bytes(digest, "little") / 2**32


def control_keys(kind: Kind, targets: np.ndarray, rows: TextRows, drawn: DrawnFrom, seed: int) -> np.ndarray:
    """For each of R rows 16 random keys to compare its target keys with, at targets' distances."""
    control = np.full((len(targets), DRAWN), -1)
    queries = np.flatnonzero((targets[:, 0] >= 0) & (drawn.total > 0))
    if not len(queries):
        return control
    begin, stop = rows.begin[queries], rows.stop[queries, None]
    shares = shares_of(seed, kind, queries - begin, rows.offsets[queries])
    chosen = drawn.first[queries, None] + (shares * drawn.total[queries, None]).astype(np.int64)
    keys, begin = queries[:, None] - drawn.distances[chosen], begin[:, None]
    named = keys - (kind is INDUCTION)  # the token whose earlier place makes this key a target
    own, last = rows.names[queries][:, None], len(targets) - 1
    is_target = (named >= begin) & (rows.names[np.clip(named, 0, last)] == own) & (named != queries[:, None])
    good = (keys >= begin) & (keys < stop) & ~is_target & ~rows.at_sink[np.clip(keys, 0, last)]
    order = np.argsort(~good, axis=1, kind="stable")[:, :DRAWN]
    control[queries] = np.take_along_axis(np.where(good, keys, -1), order, axis=1)
    return control
