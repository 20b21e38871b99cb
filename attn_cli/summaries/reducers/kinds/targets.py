"""The target keys of every kind, as lists that are made once for a text and serve all of its layers."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from attn_cli.kernel.stats.wanted import Wanted
from attn_cli.prompt import Token
from attn_cli.summaries.reducers.kinds.control import DrawnFrom, TextRows, control_keys, distances_of, offset_of
from attn_cli.summaries.reducers.kinds.head_kinds import CONTENT, DUPLICATE, FIRST, INDUCTION, PLACED, WINDOW, Kind

MOST_PLACES = 64  # of one token: ten thousand commas would cost n²
REACH = 4  # of the window


@dataclass(frozen=True, eq=False)
class Targets:
    """The target keys of each kind of head for n queries, the last n of m keys.

    lists     for each kind its keys `[n, c]`, at most c a row, -1 after the last; delimiters are in `marks` instead
    on_sinks  those of `lists` at which sinks are expected, for kinds with several targets a row `[n, c]`; only if any
    controls  for induction and duplicate random keys that are no targets, at the distances of targets `[n, c]`
    marks     which keys are delimiters, and which are no expected sinks `[2, m]`
    """

    lists: Mapping[Kind, np.ndarray]
    on_sinks: Mapping[Kind, np.ndarray]
    controls: Mapping[Kind, np.ndarray]
    marks: np.ndarray
    sinks: np.ndarray

    @property
    def wanted(self) -> Wanted:
        """The request for what rows give to these keys, and for their entropy."""
        lists = (*self.lists.values(), *self.on_sinks.values(), *self.controls.values())
        return Wanted(moments=("weight_sum", "entropy_nats"), key_sets=lists, vectors=tuple(self.marks))


class Distances:
    """How far the targets of induction and duplicate heads are from their queries, query less key, in all texts."""

    def __init__(self, texts: Sequence[Sequence[Token]], *, is_causal: bool) -> None:
        lists = [content_lists(names_of(tokens), is_causal=is_causal) for tokens in texts]
        self.of = {
            kind: np.concatenate([np.empty(0, np.int64), *(distances_of(each[kind])[1] for each in lists)])
            for kind in (INDUCTION, DUPLICATE)
        }


def targets_of(
    keys: Sequence[Token], n: int, sinks: np.ndarray, distances: Distances, *, is_causal: bool, seed: int
) -> Targets:
    """The keys that define each kind of head for n queries that stand at the last n of `keys`, -1 for none."""
    m = len(keys)
    none, offset = np.zeros(m, np.int64), offset_of([-1 if token.id is None else token.id for token in keys])
    rows = TextRows(none, none + m, names_of(keys), np.isin(np.arange(m), sinks), np.full(m, offset), delimiters(keys))
    drawn = {kind: DrawnFrom(of, none, none + len(of)) for kind, of in distances.of.items()}
    targets = targets_of_rows(rows, drawn, is_causal=is_causal, seed=seed)

    def own(lists: Mapping[Kind, np.ndarray]) -> dict[Kind, np.ndarray]:
        return {kind: compact(places[m - n :]) for kind, places in lists.items()}

    on_sinks = {kind: places for kind, places in own(targets.on_sinks).items() if (places >= 0).any()}
    return replace(targets, lists=own(targets.lists), on_sinks=on_sinks, controls=own(targets.controls))


def targets_of_rows(
    rows: TextRows, drawn: Mapping[Kind, DrawnFrom] | None = None, *, is_causal: bool, seed: int
) -> Targets:
    """The targets of R rows of texts side by side; each row's token is a key of its text."""
    count = len(rows.names)
    begin, stop = rows.begin[:, None], rows.stop[:, None]
    placed = [kind for kind in PLACED if not is_causal or kind.back >= 0]  # type: ignore[operator]
    near = np.concatenate([placed_keys(placed, count), window_keys(count, is_causal=is_causal)], axis=1)
    near = np.where((near >= begin) & (near < stop), near, -1)
    contents = content_lists(rows.names, is_causal=is_causal)
    lists = contents | {kind: near[:, at : at + 1] for at, kind in enumerate(placed)}
    lists |= {FIRST: begin, WINDOW: compact(near[:, len(placed) :])}
    drawn = {kind: DrawnFrom.of(keys, rows) for kind, keys in contents.items()} if drawn is None else drawn
    controls = {kind: control_keys(kind, keys, rows, drawn[kind], seed) for kind, keys in contents.items()}
    on_sinks = {kind: compact(np.where((keys >= 0) & rows.at_sink[keys], keys, -1)) for kind, keys in lists.items()
                if kind is WINDOW or kind.rank == CONTENT}  # fmt: skip
    marks = np.stack([rows.delimiters, ~rows.at_sink]).astype(np.float32)
    return Targets(lists, on_sinks, controls, marks, np.flatnonzero(rows.at_sink))


def cross_targets(keys: Sequence[Token], n: int, sinks: np.ndarray) -> Targets:
    """The keys that define kinds of head for n queries of cross-attention, which stand nowhere among the keys."""
    marks = np.stack([delimiters(keys), np.isin(np.arange(len(keys)), sinks, invert=True)]).astype(np.float32)
    return Targets({FIRST: np.zeros((n, 1), dtype=np.int64)}, {}, {}, marks, sinks)


def names_of(tokens: Sequence[Token]) -> np.ndarray:
    """A number for each token `[m]`, the same for the same token; special tokens have one each, as none is a repeat."""
    numbers: dict[int | str, int] = {}
    return np.array(
        [-1 - at if token.special else numbers.setdefault(token.text if token.id is None else token.id, len(numbers))
         for at, token in enumerate(tokens)], dtype=np.int64)  # fmt: skip


def content_lists(names: np.ndarray, *, is_causal: bool) -> dict[Kind, np.ndarray]:
    """For a query at each of m positions the at most c keys that induction and duplicate heads look for `[m, c]`.

    >>> lists = content_lists(np.array([0, 1, 0, 0]), is_causal=True)
    >>> lists[INDUCTION].tolist(), lists[DUPLICATE].tolist()
    ([[-1, -1], [-1, -1], [1, -1], [3, 1]], [[-1, -1], [-1, -1], [0, -1], [2, 0]])
    """
    order = np.argsort(names, kind="stable")  # places of one token follow each other
    starts = np.flatnonzero(np.diff(names[order], prepend=names[order[:1]] - 1))
    run = np.searchsorted(starts, np.arange(len(names)), side="right") - 1
    bounds = np.append(starts, len(names))
    steps = np.arange(1, min(MOST_PLACES, int(np.diff(bounds).max(initial=1))) + 1)
    at = np.arange(len(names))[:, None]
    before, after = at - steps, at + steps
    earlier = np.where(before >= bounds[run][:, None], order[np.maximum(before, 0)], -1)
    later = np.where(after < bounds[run + 1][:, None], order[np.minimum(after, len(names) - 1)], -1)
    earlier_of, later_of = np.empty_like(earlier), np.empty_like(later)
    earlier_of[order], later_of[order] = earlier, later
    others = earlier_of if is_causal else np.concatenate([earlier_of, later_of], axis=1)
    return {INDUCTION: compact(np.where(earlier_of >= 0, earlier_of + 1, -1)), DUPLICATE: compact(others)}


def placed_keys(kinds: Sequence[Kind], m: int) -> np.ndarray:
    """For each of m positions the key at the fixed distance of each kind `[m, kinds]`, such as the previous token."""
    return np.arange(m)[:, None] - np.array([kind.back for kind in kinds])


def window_keys(m: int, *, is_causal: bool) -> np.ndarray:
    """The keys of the kind "window" `[m, c]` for m positions: from 4 before it to itself, or to 4 after it."""
    return np.arange(m)[:, None] + np.arange(-REACH, 1 if is_causal else REACH + 1)


def delimiters(tokens: Sequence[Token]) -> np.ndarray:
    """Booleans `[m]`: True for special tokens after the first, and for tokens of punctuation alone."""
    return np.array([at > 0 if token.special else is_punctuation(token.text) for at, token in enumerate(tokens)], bool)


def compact(keys: np.ndarray) -> np.ndarray:
    """The rows of `keys` `[n, c]`, c indices or -1 for none, with -1 moved to the ends, and unneeded columns gone."""
    longest = int((keys >= 0).sum(axis=1).max(initial=1))
    order = np.argsort(keys < 0, axis=1, kind="stable")[:, : max(1, longest)]
    return np.take_along_axis(keys, order, axis=1)


@lru_cache(2**16)
def is_punctuation(text: str) -> bool:
    """True if a text has punctuation and nothing else but spaces."""
    marks = text.strip()
    return bool(marks) and all(unicodedata.category(character).startswith("P") for character in marks)
