"""Kinds of heads, and the targets of each in a text: the keys that its heads give more than uniform attention does.

Induction (Olsson et al. 2022), previous and duplicate token (Wang et al. 2023), delimiters (Clark et al. 2019).
"""

import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from attn_cli.kernel.stats.wanted import Wanted
from attn_cli.prompt import Token
from attn_cli.summaries.sight import Sight

CONTENT, PLACE, MARKS, SPREAD = range(4)  # ranks


class Kind(NamedTuple):
    """A kind of attention head, defined by the keys that it attends to, its targets."""

    name: str
    rank: int  # where several kinds fit a head, one of a smaller rank names it
    does: str
    meaning: str
    back: int | None = None  # how many places before the query its only target is, -1 for the next

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

MOST_PLACES = 64  # of one token: ten thousand commas would cost n²
REACH = 4  # of the window
LEAST_KEYS = 4  # a query that sees fewer has no choice worth counting
DRAWN = 16  # control keys per row
_TRIED = 4 * DRAWN


class Targets(NamedTuple):
    """The target keys of each kind of head for n queries, the last n of m keys; -1 after a row's last."""

    lists: Mapping[Kind, np.ndarray]  # [n, c] of each kind but delimiters, which are in `marks`
    on_sinks: Mapping[Kind, np.ndarray]  # [n, c] further ones that are expected sinks, of kinds with several a row
    controls: Mapping[Kind, np.ndarray]  # [n, c] of content random keys that are no targets, at their distances
    marks: np.ndarray  # [2, m] which keys are delimiters, and which are no expected sinks

    @property
    def wanted(self) -> Wanted:
        """The request for what rows give to these keys, and for their entropy."""
        lists = (*self.lists.values(), *self.on_sinks.values(), *self.controls.values())
        return Wanted(moments=("weight_sum", "entropy_nats"), key_sets=lists, vectors=tuple(self.marks))

    def of_last(self, n: int) -> "Targets":
        """The targets of the last n queries."""
        lists, on_sinks, controls = (
            {kind: keys[len(keys) - n :] for kind, keys in targets.items()}
            for targets in (self.lists, self.on_sinks, self.controls)
        )
        return Targets(lists, on_sinks, controls, self.marks)


class TextRows(NamedTuple):
    """The n query rows of a text, or of several one after the other, in which each row's token is also a key."""

    names: np.ndarray  # [n] a number for each token, equal for the same token of a text
    at_sink: np.ndarray  # [n] where a sink is expected
    offset: np.ndarray  # [n] a hash of the row's text, 0 to 1, which moves the random draws for it
    delimiters: np.ndarray  # [n] special tokens after the first, and punctuation
    first: np.ndarray  # [n] the first key of the row's text
    last: np.ndarray  # [n] the one after its last

    @classmethod
    def of(cls, tokens: Sequence[Token], sinks: np.ndarray) -> "TextRows":
        """The rows of one text."""
        n, at_sink = len(tokens), np.isin(np.arange(len(tokens)), sinks)
        offset = hashed([-1 if token.id is None else token.id for token in tokens])
        marks = [at > 0 if token.special else is_punctuation(token.text) for at, token in enumerate(tokens)]
        return cls(
            names_of(tokens), at_sink, np.full(n, offset), np.array(marks, bool), np.zeros(n, int), np.full(n, n)
        )

    @classmethod
    def together(cls, texts: "Sequence[TextRows]", n: int) -> "TextRows":
        """Those of all, n of each text; a row after a text's last has no keys."""
        names, at_sink, offset, delimiters, first, last = (side_by_side(x, n) for x in zip(*texts, strict=True))
        moved = n * np.repeat(np.arange(len(texts)), n) * (last > 0)
        unlike = -1 - np.arange(len(names))  # of tokens that no other repeats
        names = np.where((names >= 0) & (last > 0), names + moved, unlike)
        return cls(names, at_sink, offset, delimiters, first + moved, last + moved)

    @property
    def marks(self) -> np.ndarray:
        """Which rows are delimiters, and which are no expected sinks `[2, n]`."""
        return np.stack([self.delimiters, ~self.at_sink]).astype(np.float32)


def side_by_side(parts: Sequence[np.ndarray], n: int, fill: int = 0) -> np.ndarray:
    """Arrays of texts `[rows, ...]` as one, with n rows of each; `fill` in those after a text's own."""
    made = np.full((n * len(parts), *parts[0].shape[1:]), fill, parts[0].dtype)
    for at, part in enumerate(parts):
        made[n * at : n * at + len(part)] = part
    return made


def targets_of(rows: TextRows, far: Mapping[Kind, np.ndarray] | None = None, *, is_causal: bool, seed: int) -> Targets:
    """The targets of all rows; control keys are `far` away, by default as far as the text's own targets."""
    n = len(rows.names)

    def back(*steps: int) -> np.ndarray:
        keys = np.arange(n)[:, None] - np.array(steps)
        return np.where((keys >= rows.first[:, None]) & (keys < rows.last[:, None]), keys, -1)

    lists = content_lists(rows.names, is_causal=is_causal)
    controls = {
        kind: _control(kind, keys, rows, None if far is None else far[kind], seed) for kind, keys in lists.items()
    }
    lists[WINDOW] = back(*range(REACH, -1 if is_causal else -REACH - 1, -1))
    on_sinks = {kind: compact(np.where(rows.at_sink[keys], keys, -1)) for kind, keys in lists.items()}
    lists = {kind: compact(np.where(rows.at_sink[keys], -1, keys)) for kind, keys in lists.items()}
    lists |= {kind: back(kind.back) for kind in KINDS if kind.back is not None and not (is_causal and kind.back < 0)}
    return Targets(lists | {FIRST: rows.first[:, None]}, on_sinks, controls, rows.marks)


def cross_targets(rows: TextRows, n: int) -> Targets:
    """The targets of n queries of cross-attention, which stand nowhere among the keys."""
    return Targets({FIRST: np.zeros((n, 1), dtype=np.int64)}, {}, {}, rows.marks)


def distances(texts: Sequence[Sequence[Token]], *, is_causal: bool) -> dict[Kind, np.ndarray]:
    """How far before its query each target of induction and duplicate is in some texts."""
    contents = [content_lists(names_of(tokens), is_causal=is_causal) for tokens in texts]
    return {kind: np.concatenate([_distances(lists[kind])[1] for lists in contents]) for kind in (INDUCTION, DUPLICATE)}


def names_of(tokens: Sequence[Token]) -> np.ndarray:
    """A number for each token `[m]`, the same for the same token; special tokens have one each, as none is a repeat."""
    numbers, names = dict[int | str, int](), list[int]()
    for at, token in enumerate(tokens):
        name = token.text if token.id is None else token.id
        names.append(-1 - at if token.special else numbers.setdefault(name, len(numbers)))
    return np.array(names, np.int64)


def content_lists(names: np.ndarray, *, is_causal: bool) -> dict[Kind, np.ndarray]:
    """For a query at each of m positions the at most c keys that induction and duplicate heads look for `[m, c]`.

    >>> lists = content_lists(np.array([0, 1, 0, 0]), is_causal=True)
    >>> lists[INDUCTION].tolist(), lists[DUPLICATE].tolist()
    ([[-1, -1], [-1, -1], [1, -1], [3, 1]], [[-1, -1], [-1, -1], [0, -1], [2, 0]])
    """
    order = np.argsort(names, kind="stable")  # places of one token follow each other
    ranks = np.argsort(order)[:, None]
    steps = np.arange(1, min(MOST_PLACES, int(np.unique(names, return_counts=True)[1].max(initial=1))) + 1)

    def same(at: np.ndarray) -> np.ndarray:
        keys = order[np.clip(at, 0, len(order) - 1)]
        return np.where((at >= 0) & (at < len(order)) & (names[keys] == names[:, None]), keys, -1)

    earlier = same(ranks - steps)
    others = earlier if is_causal else np.concatenate([earlier, same(ranks + steps)], axis=1)
    return {INDUCTION: compact(np.where(earlier >= 0, earlier + 1, -1)), DUPLICATE: compact(others)}


def hashed(ids: Sequence[int] | np.ndarray) -> float:
    """A hash of a text's token ids as a number from 0 to 1, which moves the random draws for it."""
    digest = blake2b(np.asarray(ids, np.int64).tobytes(), digest_size=4).digest()
    return int.from_bytes(digest, "little") / 2**32


def shares_of(seed: int, kind: Kind, places: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Random numbers from 0 to 1 `[Q, 64]`, 64 draws for each of Q queries, others for each seed and kind of head."""
    random = np.random.default_rng((seed, KINDS.index(kind)))
    moved = random.random((int(places.max(initial=-1)) + 1, _TRIED))[places] + offset[:, None]
    return np.where(moved >= 1, moved - 1, moved)


def _control(kind: Kind, targets: np.ndarray, rows: TextRows, far: np.ndarray | None, seed: int) -> np.ndarray:
    """For each of n rows 16 random keys that are no targets: `far` away, or as far as the text's own targets."""
    control, n = np.full((len(targets), DRAWN), -1), len(targets)
    of_row, distances = _distances(targets) if far is None else (np.zeros(len(far)), far)
    queries = np.flatnonzero(targets[:, 0] >= 0)
    if not len(queries) or not len(distances):
        return control
    first, last = rows.first[queries][:, None], rows.last[queries][:, None]
    begin, end = (0, len(far)) if far is not None else (np.searchsorted(of_row, x) for x in (first, last))
    shares = shares_of(seed, kind, queries - first[:, 0], rows.offset[queries])
    keys = queries[:, None] - distances[begin + (shares * (end - begin)).astype(np.int64)]
    named = keys - (kind is INDUCTION)  # the token whose earlier place makes the key a target
    own = rows.names[queries][:, None]
    is_target = (named >= 0) & (rows.names[np.clip(named, 0, n - 1)] == own) & (named != queries[:, None])
    good = (keys >= first) & (keys < last) & ~is_target & ~rows.at_sink[np.clip(keys, 0, n - 1)]
    order = np.argsort(~good, axis=1, kind="stable")[:, :DRAWN]
    control[queries] = np.take_along_axis(np.where(good, keys, -1), order, axis=1)
    return control


def _distances(targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For all targets `[R, c]` their row, ascending, and how far before it they are."""
    queries, columns = np.nonzero(targets >= 0)
    return queries, queries - targets[queries, columns]


@lru_cache(2**16)
def is_punctuation(text: str) -> bool:
    """True if a text has punctuation and nothing else but spaces."""
    marks = text.strip()
    return bool(marks) and all(unicodedata.category(character).startswith("P") for character in marks)


def compact(keys: np.ndarray) -> np.ndarray:
    """The rows of `keys` `[n, c]`, c indices or -1 for none, with -1 moved to the ends, and unneeded columns gone."""
    longest = int((keys >= 0).sum(axis=1).max(initial=1))
    order = np.argsort(keys < 0, axis=1, kind="stable")[:, : max(1, longest)]
    return np.take_along_axis(keys, order, axis=1)


class RowFactors(NamedTuple):
    """How each of n rows counts for each of K kinds, `[K, n]`; rows that see fewer than 4 keys don't."""

    counted: np.ndarray  # 1 for rows with a target; for uniform attention 1 / log of the keys seen
    rest: np.ndarray  # 1 for rows with a target that is no expected sink
    uniform: np.ndarray  # targets seen / keys seen; NaN for kinds without targets
    controls: np.ndarray  # for content targets seen / random keys at like distances seen; 0 for none


def factors_of(targets: Targets, sight: Sight, *, learned_sink: bool) -> RowFactors:
    """How the n rows that `sight` is of count for each of K kinds of heads."""
    keys = sight.count.astype(np.float64)
    judged = (keys >= LEAST_KEYS).astype(np.float64)
    counted, rest, controls = np.zeros((3, len(KINDS), len(keys)))
    uniform = np.full(counted.shape, np.nan)
    for at, kind in enumerate(KINDS):
        if kind is UNIFORM:  # 1 over the entropy, in nats, of equal weights
            counted[at], rest[at] = judged / np.log(np.maximum(keys, 2)), judged
            continue
        on_sinks, learned = np.zeros(len(keys)), kind is FIRST and learned_sink
        if kind is DELIMITER:
            own = sight.along_rows(targets.marks[0])
        elif kind in targets.lists:
            sees = sight.sees(targets.lists[kind])
            if kind in targets.on_sinks:
                on_sinks = sight.sees(targets.on_sinks[kind]).sum(axis=1)
            elif kind is not FIRST:
                on_sinks = (sees & (targets.marks[1, targets.lists[kind]] == 0)).sum(axis=1)
            own = sees.sum(axis=1) + on_sinks * (kind in targets.on_sinks)
        else:
            continue
        counted[at], rest[at] = judged * (own + learned > 0), judged * (own + learned > on_sinks)
        uniform[at] = (own + learned) / np.maximum(keys + learned, 1) * counted[at]
        if kind.rank == CONTENT:
            drawn = sight.sees(targets.controls[kind]).sum(axis=1)
            controls[at] = np.divide(own, drawn, out=np.zeros(len(own)), where=drawn > 0) * counted[at]
    return RowFactors(counted, rest, uniform, controls)
