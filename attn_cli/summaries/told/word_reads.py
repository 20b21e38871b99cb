"""The share of every word, or in a long text of every sentence, in what every other reads, over heads and layers."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import from_numpy, namespace, to_numpy
from attn_cli.call import Call
from attn_cli.fields import COUNT, FINITE, TEXT, Field, Rows
from attn_cli.kernel.bands.band import Band
from attn_cli.prompt import Prompt, Token
from attn_cli.sentences import piece_starts
from attn_cli.summaries.calls.in_words import MergedWords, words_of
from attn_cli.summaries.calls.memo import memoised
from attn_cli.summaries.calls.read_shares import row_shares
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.sinks import special_places
from attn_cli.summaries.told.value_norms import value_norms

MOST_WORDED = 512  # tokens of a text that is told by its words; a longer one is told by its sentences
_MOST_SENTENCES = 512  # of a text that is told: what each reads of each is kept for every layer
_SOURCES = 3  # of a word that are kept


@memoised
def units_of(tokens: Sequence[Token]) -> MergedWords:
    """The words of a text, or of one of more than 512 tokens its sentences; a special token is a unit by itself.

    Each label has the place of its first token.
    """
    if len(tokens) > MOST_WORDED:
        return _sentences_of(tokens)
    words = words_of(tokens)
    labels = (
        Token(int(start), x.text, start=x.start, end=x.end, special=x.special, row=x.row, column=x.column)
        for start, x in zip(words.starts, words.labels, strict=False)
    )
    return MergedWords(tuple(labels), words.starts)


def _sentences_of(tokens: Sequence[Token]) -> MergedWords:
    """The sentences of a text, whose characters are those of its tokens, with blanks where none has any."""
    characters = [" "] * max((token.end or 0 for token in tokens), default=0)
    for token in tokens:
        if token.start is not None and token.end is not None:
            characters[token.start : token.end] = token.text.ljust(token.end - token.start)[: token.end - token.start]
    text = "".join(characters)
    borders = piece_starts(text, "sentences", 0, len(text))

    def unit(place: int) -> tuple[int, int]:
        token = tokens[place]
        return (-1, place) if token.special or token.start is None else (bisect_right(borders, token.start), 0)

    labels, starts = [], []
    for _, group in groupby(range(len(tokens)), unit):
        first, *_, last = (own := [tokens[place] for place in group])[0], own[-1]
        starts.append(first.index)
        said = first.text if first.special or first.start is None else text[first.start : last.end].strip()
        labels.append(Token(first.index, said, start=first.start, end=last.end, special=first.special))
    return MergedWords(tuple(labels), np.array([*starts, len(tokens)]))


def can_be_told(tokens: Sequence[Token]) -> bool:
    """True if a text is one of words, or of several sentences, but not of so many that what each reads is a burden."""
    return len(tokens) <= MOST_WORDED or 2 < len(units_of(tokens).labels) <= _MOST_SENTENCES


@dataclass(frozen=True, eq=False)
class UnitReads(Part):
    """The share of each word, or sentence, in what another reads, of all heads of a call together, by value `[u, u]`.

    It is the length of weight times value, heads side by side; of the weights where no values are known. Of the tokens
    of a word those that are read are added up, of those that read the mean is taken.
    """

    name: ClassVar[str] = "unit_reads"
    together: ClassVar[bool] = True

    shares: np.ndarray

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per (reading, read)."""
        labels = units_of(summary.keys).labels
        for query, row in zip(labels, self.shares.tolist(), strict=True):
            for key, share in zip(labels, row, strict=True):
                yield {"layer": summary.place.layer, "query": query.index, "key": key.index, "share": share}

    def arrays(self) -> dict[str, np.ndarray]:
        """`read_share` with an axis of one head in front."""
        return {"read_share": self.shares[None]}


class UnitReadsReducer:
    """Collects `UnitReads` of all rows of a call, whose tokens read themselves."""

    needs_scores = False
    whole_heads = True
    rows: Sequence[int] | None = None

    def start(self, call: Call) -> None:
        """Allocate `[u, u]` for what u words or sentences read of each other."""
        norms = value_norms(call)
        self.norms = None if norms is None else from_numpy(norms, call.like)[:, None]
        self.starts, self.m = units_of(call.keys).starts, call.m
        self.unit = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))  # of each token
        self.sums = np.zeros((len(self.starts) - 1,) * 2, dtype=np.float32)

    def add(self, band: Band) -> None:
        """Add the weights of the band's rows, by the words of query and key."""
        keys, xp = slice(band.first, band.last), namespace(band.weights)
        lengths = band.weights if self.norms is None else band.weights * self.norms[..., keys]
        shares = np.zeros((band.stop - band.start, self.m), dtype=np.float32)
        shares[:, keys] = to_numpy(row_shares(xp.sqrt((lengths * lengths).sum(0)[None]))[0])
        np.add.at(self.sums, self.unit[band.start : band.stop], np.add.reduceat(shares, self.starts[:-1], axis=1))

    def result(self) -> UnitReads:
        """The shares of what each word reads, of all calls."""
        return UnitReads(self.sums / np.diff(self.starts)[:, None])


@dataclass(frozen=True)
class WordReads:
    """A word, or a sentence, and what it reads.

    own      the share of the word itself
    sources  the words past itself and sinks of which it reads most, with their shares, largest first
    """

    word: Token
    own: float
    sources: tuple[tuple[Token, float], ...]


@dataclass(frozen=True)
class Reads:
    """The words of a text with what each reads, a mean over layers; special tokens are left out.

    words  in the order of the text; each `Token` has the number of its first token
    most_read  the word that the others read most, past sinks, with the mean of their shares; None of a single word
    sinks  the words that are no source, with the mean share that others read of them
    by_sentence  whether they are sentences
    """

    stream: str
    layers: int
    words: tuple[WordReads, ...]
    sinks: tuple[tuple[Token, float], ...]
    by_sentence: bool = False
    most_read: tuple[Token, float] | None = None


_SOURCE = (
    Field("key", COUNT, value=lambda pair: pair[0].index),
    Field("key_word", TEXT, value=lambda pair: pair[0].text),
    Field("share", FINITE, value=lambda pair: pair[1]),
)
READS = Field(
    "reads",
    Rows((
        Field("query", COUNT, "the index of the word's first token", lambda each: each.word.index),
        Field("query_word", TEXT, value=lambda each: each.word.text),
        Field("own", FINITE, "the share of the word itself"),
        Field("sources", Rows(_SOURCE), "the words past itself and sinks of which it reads most"),
    )),
    "what every word reads, as shares of the length of weight times value, all heads of a layer together, mean over "
    "layers; of models without a causal mask, for one text; of more than 512 tokens sentences in place of words",
    lambda report: None if report.reads is None else report.reads.words, optional=True,
)  # fmt: skip


def reads_of(prompt: Prompt, summaries: Sequence[Summary], sinks: Sequence[int]) -> Reads | None:
    """The reads of the words of a text, from the `UnitReads` of its layers; None where there are none.

    sinks  the keys that are sinks of the text: a sentence with one among its tokens is read like any other
    """
    seen = [(summary, part) for summary in summaries if (part := summary.part(UnitReads)) is not None]
    if not seen:
        return None
    shares = np.stack([part.shares for _, part in seen]).mean(axis=0, dtype=np.float64)
    labels, starts = units_of(prompt.tokens)
    special = set(special_places(labels).tolist())
    by_sentence = len(prompt.tokens) > MOST_WORDED
    resting = special | {int(np.searchsorted(starts, key, side="right")) - 1 for key in sinks if not by_sentence}
    told = []
    for at, label in enumerate(labels):
        if at in special:
            continue
        order = [key for key in np.argsort(-shares[at], kind="stable").tolist() if key != at and key not in resting]
        sources = tuple((labels[key], float(shares[at, key])) for key in order[:_SOURCES] if shares[at, key] > 0)
        told.append(WordReads(label, float(shares[at, at]), sources))
    rows = [at for at in range(len(labels)) if at not in special]
    parked = tuple((labels[key], float(shares[rows, key].mean())) for key in sorted(resting)) if rows else ()
    by_others = [(labels[key], float(shares[[at for at in rows if at != key], key].mean()))
                 for key in rows if key not in resting and len(rows) > 1]  # fmt: skip
    most_read = max(by_others, key=lambda pair: pair[1], default=None)
    return Reads(seen[0][0].place.stream, len(seen), tuple(told), parked, by_sentence, most_read)
