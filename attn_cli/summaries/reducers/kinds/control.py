"""The control of kinds whose targets are repeats: keys as far away as targets are, that are none.

A head that looks so far back whatever stands there gives these as much. Which keys are drawn depends on the seed, the
kind, the query's place and the text's tokens alone, so that a text by itself and one of a corpus have the same control.
"""

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
    offsets       the offset of each row's text, as `offset_of` makes it, 0 to 1 `[R]`
    delimiters    True at special tokens after the first, and at punctuation `[R]`
    """

    begin: np.ndarray
    stop: np.ndarray
    names: np.ndarray
    at_sink: np.ndarray
    offsets: np.ndarray
    delimiters: np.ndarray


class DrawnFrom(NamedTuple):
    """The distances, query less key, from which keys are drawn that a head's targets are held against (its control).

    Targets are the keys that define a kind of head, such as induction; distances are those of all targets, text after
    text.

    first, total  the index in `distances` of the first of each row's text, and how many are its text's `[R]`
    """

    distances: np.ndarray
    first: np.ndarray
    total: np.ndarray

    @classmethod
    def of(cls, targets: np.ndarray, rows: TextRows) -> "DrawnFrom":
        """The distances of the target keys `[R, c]`, -1 for none, of each of the texts that `rows` are of."""
        queries, distances = distances_of(targets)
        bounds = np.searchsorted(queries, [rows.begin, rows.stop])
        return cls(distances, bounds[0], bounds[1] - bounds[0])


def distances_of(targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The queries of all targets `[R, c]`, one after the other, and their distances: query less key."""
    queries, columns = np.nonzero(targets >= 0)
    return queries, queries - targets[queries, columns]


def shares_of(seed: int, kind: Kind, places: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Even random numbers from 0 to 1 `[Q, 64]` for queries at these places of texts with these offsets `[Q]`.

    Every place has numbers of its own, which each text moves by its offset (Cranley and Patterson 1976).
    """
    random = np.random.default_rng((seed, KINDS.index(kind)))
    moved = random.random((int(places.max(initial=-1)) + 1, _TRIED))[places] + offsets[:, None]
    return np.where(moved >= 1, moved - 1, moved)


def offset_of(ids: Sequence[int] | np.ndarray) -> float:
    """A hash of a text's token ids as a number from 0 to 1, which seeds the draws of its control."""
    digest = blake2b(np.asarray(ids, np.int64).tobytes(), digest_size=4).digest()
    return int.from_bytes(digest, "little") / 2**32


def control_keys(kind: Kind, targets: np.ndarray, rows: TextRows, drawn: DrawnFrom, seed: int) -> np.ndarray:
    """For each row 16 keys to hold its targets against: as far away as targets of its text, not target or sink.

    targets  the target keys of each row `[R, c]`, -1 after its last

    Indices `[R, 16]`, -1 after the last of a row; rows without a target have none.
    """
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
