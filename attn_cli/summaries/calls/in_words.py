"""A call between words: weights are summed over the tokens of a key word and averaged over those of a query word."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from attn_cli.arrays import at_least_float32, from_numpy, segment_sums, zeros
from attn_cli.call import Call
from attn_cli.kernel.bands.band import Band
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


@memoised
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


def has_words(tokens: Sequence[Token]) -> bool:
    """True if any token is known to be part of a word."""
    return any(token.word is not None for token in tokens)


def prompt_in_words(prompt: Prompt) -> Prompt:
    """The prompt with words in place of tokens, in every stream that has tokens (encoder, decoder ...)."""
    others = {stream: words_of(tokens).labels for stream, tokens in prompt.others.items()}
    return replace(prompt, tokens=words_of(prompt.tokens).labels, others=others)


class InWords(DerivedCall):
    """Attention between words: weights summed over the tokens of a key word, then averaged over those of a query word.

    A row's sum is the mean of its tokens' row sums; words have no output.
    """

    def __init__(self, call: Call) -> None:
        self._rows = words_of(call.queries)
        self._columns = words_of(call.keys)
        super().__init__(call, self._rows.labels, self._columns.labels)

    @property
    def shows_scores(self) -> bool:
        """False: the model computed no scores of words."""
        return False

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
                unfinished[band.heads.start] = _rows_of(sums, sums.stop - 1, sums.stop)
                sums = _rows_of(sums, sums.start, sums.stop - 1)
            if sums.stop > sums.start:
                sizes = from_numpy(1 / np.diff(starts[sums.start : sums.stop + 1]), sums.weights)[None, :, None]
                yield replace(sums, weights=sums.weights * sizes)

    def _sums(self, band: Band) -> Band:
        inside = self._rows.inside(band.start, band.stop)
        # rows first, which is faster because fewer rows remain
        weights = segment_sums(at_least_float32(band.weights), inside, 1)
        weights = segment_sums(weights, self._columns.inside(band.first, band.last), 2)
        rows, keys = self._rows.range(band.start, band.stop), self._columns.range(band.first, band.last)
        return Band(*rows, *keys, weights, None, weights[..., :0], band.heads)


def _rows_of(sums: Band, start: int, stop: int) -> Band:
    """The rows start:stop alone, copied, as the memory of a band is used again."""
    return replace(sums, start=start, stop=stop, weights=sums.weights[:, start - sums.start : stop - sums.start] + 0)


def _added(unfinished: Band, sums: Band) -> Band:
    """The sums with those of `unfinished`, of their first row, over all keys that either has."""
    first, last = min(unfinished.first, sums.first), max(unfinished.last, sums.last)
    weights = zeros((*sums.weights.shape[:2], last - first), sums.weights)
    weights[:, :, sums.first - first : sums.last - first] = sums.weights
    weights[:, :1, unfinished.first - first : unfinished.last - first] += unfinished.weights
    return replace(sums, first=first, last=last, weights=weights)
