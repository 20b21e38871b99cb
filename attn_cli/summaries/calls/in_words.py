"""A call between words: weights are summed over the tokens of a key word and averaged over those of a query word."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from attn_cli.arrays import Array, at_least_float32, from_numpy, namespace, segment_sums, zeros
from attn_cli.call import Call
from attn_cli.kernel.bands.band import Band
from attn_cli.kernel.bands.masked_cells import logarithms
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.calls.derived import DerivedCall
from attn_cli.summaries.calls.memo import memoised


class MergedWords(NamedTuple):
    """The words of a sequence of tokens; `starts` are their first tokens, then the number of tokens `[words + 1]`."""

    labels: tuple[Token, ...]
    starts: np.ndarray

    def range(self, first: int, last: int) -> tuple[int, int]:
        """The words with a token among tokens first:last, as a range of indices: the first, and the last plus 1."""
        if first == last:
            return 0, 0
        begin, end = np.searchsorted(self.starts, (first, last - 1), side="right")
        return int(begin) - 1, int(end)

    def inside(self, first: int, last: int) -> np.ndarray:
        """The place, from `first`, of the first token in first:last of each word that has one there."""
        begin, end = self.range(first, last)
        return np.maximum(self.starts[begin:end] - first, 0)

    def sizes(self, first: int, last: int) -> np.ndarray:
        """The number of tokens of each of the words first:last, which are counted among words, `[last - first]`."""
        return np.diff(self.starts[first : last + 1])


def words_of(tokens: Sequence[Token]) -> MergedWords:
    """The words of `tokens`; a token that is no part of a word is a word by itself and keeps its id."""
    labels: list[Token] = []
    starts: list[int] = []
    for _, group in groupby(range(len(tokens)), lambda at: tokens[at].word or at):
        places = list(group)
        starts.append(places[0])
        pieces = [tokens[at] for at in places]
        word = pieces[0].word
        if word is None:
            labels.append(replace(pieces[0], index=len(labels)))
        else:
            spans = [(x.start, x.end) for x in pieces if x.start is not None and x.end is not None and x.text != " "]
            start, end = (spans[0][0], max(end for _, end in spans)) if spans else (None, None)
            labels.append(Token(len(labels), word.text, None, start, end, generated=pieces[0].generated))
    return MergedWords(tuple(labels), np.array([*starts, len(tokens)]))


_words_of = memoised(words_of)


def has_words(tokens: Sequence[Token]) -> bool:
    """True if any token is known to be part of a word."""
    return any(token.word is not None for token in tokens)


def prompt_in_words(prompt: Prompt) -> Prompt:
    """The prompt with words in place of tokens, in every stream that has tokens (encoder, decoder ...)."""
    others = {stream: words_of(tokens).labels for stream, tokens in prompt.others.items()}
    return replace(prompt, tokens=words_of(prompt.tokens).labels, others=others)


class InWords(DerivedCall):
    """Attention between words: weights summed over the tokens of a key word, then averaged over those of a query word.

    A row's sum is the mean of its tokens' row sums. Scores of words are logarithms of these weights, never shown: the
    model computed none.
    """

    def __init__(self, call: Call) -> None:
        self._rows = _words_of(call.queries)
        self._columns = _words_of(call.keys)
        super().__init__(call, self._rows.labels, self._columns.labels)

    @property
    def shows_scores(self) -> bool:
        """True: as scores it shows the logarithms of the words' weights, which are not the model's scores."""
        return True

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The weights between words as bands of some adjacent words as rows, ascending; of all words or of `rows`."""
        starts = self._rows.starts
        tokens = None if rows is None else [at for row in rows for at in range(starts[row], starts[row + 1])]
        # the sums of a word that continues in the next band, by the band's first head
        unfinished: dict[int | None, Band] = {}
        for band in self.call.bands(rows=tokens, in_parts=in_parts):
            sums = self._sums(band)
            if band.heads.start in unfinished:
                sums = _added(unfinished.pop(band.heads.start), sums)
            if band.stop < starts[sums.stop]:
                unfinished[band.heads.start] = _last_row(sums)
                sums = _without_last_row(sums)
            if sums.stop > sums.start:
                yield self._means(sums, want_scores=want_scores)

    def _sums(self, band: Band) -> Band:
        inside = self._rows.inside(band.start, band.stop)
        # rows first, which is faster because fewer rows remain
        weights = segment_sums(at_least_float32(band.weights), inside, 1)
        weights = segment_sums(weights, self._columns.inside(band.first, band.last), 2)
        output = segment_sums(at_least_float32(band.output), inside, 1)
        rows, keys = self._rows.range(band.start, band.stop), self._columns.range(band.first, band.last)
        return Band(*rows, *keys, weights, None, output, band.heads)

    def _means(self, sums: Band, *, want_scores: bool) -> Band:
        weights, output = sums.weights, sums.output
        sizes = self._rows.sizes(sums.start, sums.stop)
        if (sizes > 1).any():
            shares = from_numpy(1 / sizes, weights)[None, :, None]
            weights, output = weights * shares, output * shares
        scores = logarithms(weights) if want_scores else None
        return replace(sums, weights=weights, raw_scores=scores, output=output)


def is_in_words(call: Call) -> bool:
    """True if the rows and columns of an attention call are words (`InWords`), also where keys were hidden since."""
    return isinstance(call, InWords) or (isinstance(call, DerivedCall) and is_in_words(call.call))


def _added(unfinished: Band, sums: Band) -> Band:
    first, last = _hull(unfinished, sums)
    xp = namespace(sums.weights)
    weights, more = _widened(sums, first, last), _widened(unfinished, first, last)
    weights = xp.concat([weights[:, :1] + more, weights[:, 1:]], axis=1)
    output = xp.concat([sums.output[:, :1] + unfinished.output, sums.output[:, 1:]], axis=1)
    return replace(sums, first=first, last=last, weights=weights, output=output)


def _hull(one: Band, other: Band) -> tuple[int, int]:
    nonempty = [band for band in (one, other) if band.last > band.first]
    return min((band.first for band in nonempty), default=0), max((band.last for band in nonempty), default=0)


def _widened(band: Band, first: int, last: int) -> Array:
    """The weights of `band` on keys first:last, a range that holds its own."""
    if (band.first, band.last) == (first, last):
        return band.weights
    whole = zeros((*band.weights.shape[:2], last - first), band.weights)
    if band.last > band.first:
        whole[:, :, band.first - first : band.last - first] = band.weights
    return whole


def _last_row(sums: Band) -> Band:
    weights, output = sums.weights[:, -1:] + 0, sums.output[:, -1:] + 0
    return replace(sums, start=sums.stop - 1, weights=weights, output=output)


def _without_last_row(sums: Band) -> Band:
    return replace(sums, stop=sums.stop - 1, weights=sums.weights[:, :-1], output=sums.output[:, :-1])
