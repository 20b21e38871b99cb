"""The share of every word in what every other word of a text reads, over all heads and layers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import from_numpy, namespace, to_numpy, zeros
from attn_cli.call import Call
from attn_cli.kernel.bands.band import Band
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.calls.in_words import words_of
from attn_cli.summaries.calls.read_shares import row_shares
from attn_cli.summaries.fields import COUNT, FINITE, TEXT, Field, Rows
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.sinks import special_places
from attn_cli.summaries.told.value_norms import value_norms

MOST_TOKENS = 512  # of a text of which every cell is kept
_SOURCES = 3  # of a word that are kept


@dataclass(frozen=True, eq=False)
class TokenReads(Part):
    """The share of each key in what a row reads, of all heads of a call together, by value `[n, m]`.

    It is the length of weight times value, heads side by side; of the weights where no values are known.
    """

    name: ClassVar[str] = "token_reads"
    together: ClassVar[bool] = True

    shares: np.ndarray

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per (query, key)."""
        for query, row in zip(summary.queries, self.shares.tolist(), strict=True):
            for key, share in zip(summary.keys, row, strict=True):
                yield {"layer": summary.place.layer, "query": query.index, "key": key.index, "share": share}

    def arrays(self) -> dict[str, np.ndarray]:
        """`read_share` with an axis of one head in front."""
        return {"read_share": self.shares[None]}


class TokenReadsReducer:
    """Collects `TokenReads` of all rows of a call."""

    needs_scores = False
    whole_heads = True
    rows: Sequence[int] | None = None

    def start(self, call: Call) -> None:
        """Allocate `[n, m]`."""
        norms = value_norms(call)
        self.norms = None if norms is None else from_numpy(norms, call.like)[:, None]
        self.shares = zeros((call.n, call.m), call.like)

    def add(self, band: Band) -> None:
        """Add the band's rows."""
        keys, xp = slice(band.first, band.last), namespace(band.weights)
        lengths = band.weights if self.norms is None else band.weights * self.norms[..., keys]
        self.shares[band.start : band.stop, keys] = row_shares(xp.sqrt((lengths * lengths).sum(0)[None]))[0]

    def result(self) -> TokenReads:
        """The shares."""
        return TokenReads(to_numpy(self.shares))


@dataclass(frozen=True)
class WordReads:
    """A word, and what it reads.

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
    sinks  the words that are no source, with the mean share that others read of them
    """

    stream: str
    layers: int
    words: tuple[WordReads, ...]
    sinks: tuple[tuple[Token, float], ...]


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
    "layers; of models without a causal mask, for one text of at most 512 tokens",
    lambda report: None if report.reads is None else report.reads.words, optional=True,
)  # fmt: skip


def reads_of(prompt: Prompt, summaries: Sequence[Summary], sinks: Sequence[int]) -> Reads | None:
    """The reads of the words of a text, from the `TokenReads` of its layers; None where there are none.

    sinks  the keys that are sinks of the text
    """
    seen = [(summary, part) for summary in summaries if (part := summary.part(TokenReads)) is not None]
    if not seen:
        return None
    mean = np.mean([part.shares for _, part in seen], axis=0, dtype=np.float64)
    words = words_of(prompt.tokens)
    starts = words.starts[:-1]
    shares = np.add.reduceat(np.add.reduceat(mean, starts, axis=1), starts, axis=0) / np.diff(words.starts)[:, None]
    special = set(special_places(words.labels).tolist())
    resting = special | {int(np.searchsorted(words.starts, key, side="right")) - 1 for key in sinks}
    labels = [
        Token(int(start), label.text, start=label.start, end=label.end)
        for start, label in zip(starts, words.labels, strict=True)
    ]
    told = []
    for at, label in enumerate(labels):
        if at in special:
            continue
        order = [key for key in np.argsort(-shares[at], kind="stable").tolist() if key != at and key not in resting]
        sources = tuple((labels[key], float(shares[at, key])) for key in order[:_SOURCES] if shares[at, key] > 0)
        told.append(WordReads(label, float(shares[at, at]), sources))
    rows = [at for at in range(len(labels)) if at not in special]
    parked = tuple((labels[key], float(shares[rows, key].mean())) for key in sorted(resting)) if rows else ()
    return Reads(seen[0][0].place.stream, len(seen), tuple(told), parked)
