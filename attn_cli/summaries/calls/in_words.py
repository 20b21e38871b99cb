"""A call between words: weights are summed over the tokens of a key word and averaged over those of a query word."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from attn_cli.arrays import at_least_float32, from_numpy, segment_sums, zeros
from attn_cli.call import Call
from attn_cli.kernel.bands.band import Band
from attn_cli.memo import memoised
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.calls.derived import DerivedCall


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
    """Attention between words: weights are summed over a key word's tokens, and means over those of a query word."""

    shows_scores = False  # of words the model computed none

    def __init__(self, call: Call) -> None:
        self._rows = words_of(call.queries)
        self._columns = words_of(call.keys)
        super().__init__(call, self._rows.labels, self._columns.labels)

    def bands(
        self, *, rows: Sequence[int] | None = None, want_scores: bool = False, in_parts: bool = False
    ) -> Iterator[Band]:
        """The weights between words as bands of some adjacent words as rows, ascending; of all words or of `rows`."""
        for run in self.runs(rows):
            yield self._band(run.start, run.stop)

    def _band(self, first: int, last: int) -> Band:
        """The weights of the words first:last."""
        starts = self._rows.starts
        weights = zeros((self.h, last - first, self.m), at_least_float32(self.like))
        tokens = None if last - first == self.n else range(starts[first], starts[last])
        for band in self.call.bands(rows=tokens):
            inside, columns = self._rows.inside(band.start, band.stop), self._columns.inside(band.first, band.last)
            # rows first, which is faster because fewer rows remain
            sums = segment_sums(segment_sums(at_least_float32(band.weights), inside, 1), columns, 2)
            rows, keys = self._rows.range(band.start, band.stop), self._columns.range(band.first, band.last)
            weights[band.heads, rows[0] - first : rows[1] - first, slice(*keys)] += sums
        weights *= from_numpy(1 / np.diff(starts[first : last + 1]), weights)[None, :, None]
        return Band(first, last, 0, self.m, weights, None, weights[..., :0])
