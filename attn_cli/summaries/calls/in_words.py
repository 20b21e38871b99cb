"""A call in words: the pieces of a word are one key, whose weights add up, and one query, whose rows are averaged."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from attn_cli.arrays import Array, at_least_float32, from_numpy, namespace, segment_sums, zeros
from attn_cli.call import Call
from attn_cli.kernel.walk.band import Band
from attn_cli.kernel.walk.masked_cells import lowest_of
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.calls.derived import CallAround
from attn_cli.summaries.calls.memo import remembered


class Merged(NamedTuple):
    """Tokens as words: the labels of the words, and where each begins among the tokens, with the end after the last."""

    words: tuple[Token, ...]
    starts: np.ndarray

    def range(self, first: int, last: int) -> tuple[int, int]:
        """The words that have a piece among tokens first:last."""
        if first == last:
            return 0, 0
        begin, end = np.searchsorted(self.starts, (first, last - 1), side="right")
        return int(begin) - 1, int(end)

    def inside(self, first: int, last: int) -> np.ndarray:
        """Where the words of tokens first:last begin among these."""
        begin, end = self.range(first, last)
        places: np.ndarray = np.maximum(self.starts[begin:end] - first, 0)
        return places

    def sizes(self, first: int, last: int) -> np.ndarray:
        """How many pieces words first:last have."""
        sizes: np.ndarray = np.diff(self.starts[first : last + 1])
        return sizes


def merged(tokens: Sequence[Token]) -> Merged:
    """The words of some tokens; what is no piece of a word stays as it is but for its number.

    A word has no id, and the place in the text of all its pieces.

    >>> from attn_cli.prompt import Word
    >>> bank, un = Word("bank"), Word("unsafe")
    >>> found = merged([Token(0, "[CLS]", 9), Token(1, "un", 7, word=un), Token(2, "safe", 8, word=un),
    ...                 Token(3, "bank", 5, word=bank)])
    >>> [(word.index, word.text, word.id) for word in found.words], found.starts.tolist()
    ([(0, '[CLS]', 9), (1, 'unsafe', None), (2, 'bank', None)], [0, 1, 3, 4])
    """
    words: list[Token] = []
    starts: list[int] = []
    for _, group in groupby(range(len(tokens)), lambda at: tokens[at].word or at):
        places = list(group)
        starts.append(places[0])
        pieces = [tokens[at] for at in places]
        word = pieces[0].word
        if word is None:
            words.append(replace(pieces[0], index=len(words)))
        else:
            spans = [(x.start, x.end) for x in pieces if x.start is not None and x.end is not None and x.text != " "]
            start, end = (spans[0][0], max(end for _, end in spans)) if spans else (None, None)
            words.append(Token(len(words), word.text, None, start, end, generated=pieces[0].generated))
    return Merged(tuple(words), np.array([*starts, len(tokens)]))


_merged = remembered(merged)


def has_words(tokens: Sequence[Token]) -> bool:
    """Whether any token is known to be a piece of a word."""
    return any(token.word is not None for token in tokens)


def prompt_in_words(prompt: Prompt) -> Prompt:
    """The same text with words in place of tokens, in every stream."""
    others = {stream: merged(tokens).words for stream, tokens in prompt.others.items()}
    return replace(prompt, tokens=merged(prompt.tokens).words, others=others)


class InWords(CallAround):
    """The same call between words: weights on the keys of a word added up, then the mean over the queries of a word.

    So a row adds to what its pieces' rows add to on average. Scores can't be added: what adds up, over keys, and has a
    mean, over queries, is their exponential, and only as part of its row's sum. So the score of two words is the
    logarithm of their weight: their pieces' scores, less the logarithm of the sum of their row's exponentials, through
    log-sum-exp. It is not what the model computed, and shown nowhere as such; entropies follow from it.
    """

    def __init__(self, call: Call) -> None:
        self._rows = _merged(call.queries)
        self._columns = _merged(call.keys)
        super().__init__(call, self._rows.words, self._columns.words)

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """Words against words, ascending; the row of a word whose pieces lie in several bands comes with the last."""
        starts = self._rows.starts
        asked = None if rows is None else [at for row in rows for at in range(starts[row], starts[row + 1])]
        held: dict[int | None, Band] = {}  # by heads: sums over the pieces so far of a word that goes on
        for band in self.call.bands(rows=asked, in_parts=in_parts):
            sums = self._sums(band)
            if band.heads.start in held:
                sums = _added(held.pop(band.heads.start), sums)
            if band.stop < starts[sums.stop]:
                held[band.heads.start] = _last_row(sums)
                sums = _without_last_row(sums)
            if sums.stop > sums.start:
                yield self._means(sums, want_scores=want_scores)

    def _sums(self, band: Band) -> Band:
        """The band with its cells, and its outputs, added up."""
        inside = self._rows.inside(band.start, band.stop)
        weights = segment_sums(at_least_float32(band.weights), inside, 1)  # rows first: quicker, and leaves fewer
        weights = segment_sums(weights, self._columns.inside(band.first, band.last), 2)
        output = segment_sums(at_least_float32(band.output), inside, 1)
        rows, keys = self._rows.range(band.start, band.stop), self._columns.range(band.first, band.last)
        return Band(*rows, *keys, weights, None, output, band.heads)

    def _means(self, sums: Band, *, want_scores: bool) -> Band:
        """Sums over queries as means, with the logarithms of the weights as scores."""
        weights, output = sums.weights, sums.output
        sizes = self._rows.sizes(sums.start, sums.stop)
        if (sizes > 1).any():
            shares = from_numpy(1 / sizes, weights)[None, :, None]
            weights, output = weights * shares, output * shares
        scores = _logarithms(weights) if want_scores else None
        return replace(sums, weights=weights, raw_scores=scores, output=output)


def _logarithms(weights: Array) -> Array:
    """The lowest number where the weight is 0."""
    xp, some = namespace(weights), weights > 0
    lowest = xp.full_like(weights, lowest_of(weights))
    return xp.where(some, xp.log(xp.where(some, weights, xp.ones_like(weights))), lowest)


def _added(held: Band, sums: Band) -> Band:
    """`sums` with the only row of `held` added to its first."""
    first, last = _hull(held, sums)
    xp = namespace(sums.weights)
    weights, more = _widened(sums, first, last), _widened(held, first, last)
    weights = xp.concat([weights[:, :1] + more, weights[:, 1:]], axis=1)
    output = xp.concat([sums.output[:, :1] + held.output, sums.output[:, 1:]], axis=1)
    return replace(sums, first=first, last=last, weights=weights, output=output)


def _hull(one: Band, other: Band) -> tuple[int, int]:
    """The keys that either sees."""
    seen = [band for band in (one, other) if band.last > band.first]
    return min((band.first for band in seen), default=0), max((band.last for band in seen), default=0)


def _widened(band: Band, first: int, last: int) -> Array:
    """Its weights on keys first:last, among which its own are."""
    if (band.first, band.last) == (first, last):
        return band.weights
    whole = zeros((*band.weights.shape[:2], last - first), band.weights)
    if band.last > band.first:
        whole[:, :, band.first - first : band.last - first] = band.weights
    return whole


def _last_row(sums: Band) -> Band:
    """A copy: the memory of bands is used again."""
    weights, output = sums.weights[:, -1:] + 0, sums.output[:, -1:] + 0
    return replace(sums, start=sums.stop - 1, weights=weights, output=output)


def _without_last_row(sums: Band) -> Band:
    return replace(sums, stop=sums.stop - 1, weights=sums.weights[:, :-1], output=sums.output[:, :-1])
