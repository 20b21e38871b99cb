"""Pairs of tokens of two sequences that correspond: matched by difflib, with replaced runs as pairs."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from attn_cli.prompt import Token


@dataclass(frozen=True, eq=False)
class TokenAlignment:
    """Pairs of tokens of two sequences by their indices, ascending in the first, and the tokens that are in no pair.

    first, second              the indices of the two tokens of each pair `[pairs]`
    alone_first, alone_second  the indices of tokens of one sequence that have no partner in the other
    """

    first: np.ndarray
    second: np.ndarray
    alone_first: np.ndarray
    alone_second: np.ndarray

    def partners(self, places: np.ndarray) -> np.ndarray:
        """For tokens of the first sequence, by index, the indices of their partners in the second;
        each must have one.
        """
        return self.second[np.searchsorted(self.first, places)]

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """For all tokens of both sequences, each pair once, the index in the first and in the second: `[columns]` each.

        -1 stands for a sequence that lacks the token. Columns follow the first sequence; a token of the second alone
        comes after the column of the token before it.
        """
        after: dict[int, list[int]] = defaultdict(list)  # by the place in the first that they stand behind
        partner = dict(zip(self.second.tolist(), self.first.tolist(), strict=True))
        last = -1
        for place in range(len(self.second) + len(self.alone_second)):
            if place in partner:
                last = partner[place]
            else:
                after[last].append(place)
        second_of = dict(zip(self.first.tolist(), self.second.tolist(), strict=True))
        columns: list[tuple[int, int]] = [(-1, place) for place in after[-1]]
        for place in range(len(self.first) + len(self.alone_first)):
            columns.append((place, second_of.get(place, -1)))
            columns += [(-1, alone) for alone in after[place]]
        both = np.array(columns, dtype=np.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]


def aligned_tokens(first: Sequence[Token], second: Sequence[Token]) -> TokenAlignment:
    """Which tokens of two texts are the same, as pairs.

    Longest matching blocks of equal tokens are pairs, by id, or by text where they have none; so are runs of equal
    length between these blocks, replaced one by one. The first tokens are a pair whatever they are, since that is where
    attention sinks. Special tokens that are left over are pairs of their kind. The rest is alone.

    >>> words = lambda text: [Token(at, word) for at, word in enumerate(text.split())]
    >>> alignment = aligned_tokens(words("the old cat sat"), words("a red big cat slept here"))
    >>> list(zip(alignment.first.tolist(), alignment.second.tolist())), alignment.alone_second.tolist()
    ([(0, 0), (2, 3)], [1, 2, 4, 5])
    """
    partner = dict(_pairs(first, second))
    taken = set(partner.values())
    left_over = defaultdict(list)
    for place, token in enumerate(second):
        if token.special and place not in taken:
            left_over[_kind(token)].append(place)
    for place, token in enumerate(first):
        if token.special and place not in partner and left_over[_kind(token)]:
            partner[place] = left_over[_kind(token)].pop(0)
    pairs = np.array(sorted(partner.items()), dtype=np.int64).reshape(-1, 2)
    taken = set(partner.values())
    return TokenAlignment(
        pairs[:, 0],
        pairs[:, 1],
        np.array([place for place in range(len(first)) if place not in partner], dtype=np.int64),
        np.array([place for place in range(len(second)) if place not in taken], dtype=np.int64),
    )


class Aligner:
    """Aligns the tokens of two texts, and keeps each alignment: all layers of a model have the same tokens."""

    def __init__(self) -> None:
        self._known: list[tuple[Sequence[Token], Sequence[Token], TokenAlignment]] = []

    def of(self, first: Sequence[Token], second: Sequence[Token]) -> TokenAlignment:
        """The alignment of two sequences of tokens by `aligned_tokens`; the earlier one for the same two objects."""
        for one, other, alignment in self._known:
            if one is first and other is second:
                return alignment
        alignment = aligned_tokens(first, second)
        self._known.append((first, second, alignment))
        return alignment


def _pairs(first: Sequence[Token], second: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """The first tokens, then equal blocks and replaced runs of what follows."""
    if not first or not second:
        return
    if _order(second) < _order(first):  # difflib is not symmetric; the pairs of two texts are
        yield from ((place, other) for other, place in _pairs(second, first))
        return
    yield 0, 0
    kinds, others = [_kind(token) for token in first[1:]], [_kind(token) for token in second[1:]]
    for _, start, stop, other_start, other_stop in SequenceMatcher(None, kinds, others, autojunk=False).get_opcodes():
        if stop - start != other_stop - other_start:
            continue
        for place, other in zip(range(start + 1, stop + 1), range(other_start + 1, other_stop + 1), strict=True):
            same = first[place].special == second[other].special
            if same and (not first[place].special or _kind(first[place]) == _kind(second[other])):
                yield place, other


def _order(tokens: Sequence[Token]) -> tuple[int, list[tuple[str, int]]]:
    """Something by which any two different texts are one before the other."""
    return len(tokens), [(token.text, -1 if token.id is None else token.id) for token in tokens]


def _kind(token: Token) -> Hashable:
    """A token's identity: its id, or its text where it has no id."""
    return token.text if token.id is None else token.id
