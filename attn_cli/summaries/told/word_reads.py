"""The share of every word in what every other reads, over heads and layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from attn_cli.arrays import from_numpy, namespace, to_numpy
from attn_cli.call import Call
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.prompt import Prompt
from attn_cli.summaries.calls.in_words import words_of
from attn_cli.summaries.calls.read_shares import value_norms
from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.sinks import special_places
from attn_cli.text import cut, quoted

MOST_TOLD = 512  # tokens of a text that is told: what each word reads of each is kept for every layer
LEAST_READ = 0.05  # of what a word reads that is told
_SOURCES = 3  # of a word that are kept
_NAME = 12  # characters of a word at most


@dataclass(frozen=True, eq=False)
class WordReads(Part):
    """The share of each of u words in what another reads `[u, u]`, all heads of a call together: rows read columns.

    Shares are of norms of weight times value, of weights where no values are known; means over the reader's tokens.
    """

    name: ClassVar[str] = "word_reads"
    together: ClassVar[bool] = True

    shares: np.ndarray
    heads: np.ndarray  # by index the head of largest share
    most: np.ndarray  # that share, of the same whole, and the head's weight `[2, u, u]`


class WordReadsReducer:
    """Makes `WordReads` of a call whose queries and keys are the same tokens, from all its rows."""

    def wanted(self, call: Call) -> Wanted:
        """An empty request: it reads bands."""
        return Wanted()

    def part(self, call: Call, stats: RowStats) -> WordReads:
        """The shares and weights `[u, u]` of the call's u words: a row reads, a column is read."""
        norms, starts = value_norms(call), words_of(call.keys).starts
        norms = None if norms is None else from_numpy(norms, call.like)[:, None]
        sums = np.zeros((1 + 2 * call.h, call.n, len(starts) - 1), dtype=np.float32)  # shares: all, heads; weights
        for band in call.bands():
            keys, xp = slice(band.first, band.last), namespace(band.weights)
            lengths = band.weights if norms is None else band.weights * norms[..., keys]
            together = to_numpy(xp.sqrt((lengths * lengths).sum(0)[None]))
            whole = np.maximum(together.sum(axis=-1, keepdims=True), np.finfo(np.float32).tiny)
            rows = np.zeros((len(sums), band.stop - band.start, call.m), dtype=np.float32)
            rows[..., keys] = np.concatenate([together / whole, to_numpy(lengths) / whole, to_numpy(band.weights)])
            sums[:, band.start : band.stop] = np.add.reduceat(rows, starts[:-1], axis=2)
        shares, *each = np.add.reduceat(sums, starts[:-1], axis=1) / np.diff(starts)[:, None]
        of_heads = np.reshape(each, (2, call.h, *shares.shape))
        heads = of_heads[0].argmax(axis=0)
        most = np.take_along_axis(of_heads, heads[None, None], axis=1)[:, 0]
        return WordReads(shares, heads, most)


Reads: TypeAlias = list[dict[str, Any]]


def reads_of(prompt: Prompt, seen: Sequence[tuple[Summary, WordReads]], sinks: Sequence[int]) -> Reads:
    """What each word of a text attends to: its own tokens, and up to three sources, those of largest share first."""
    shares = np.stack([part.shares for _, part in seen]).mean(axis=0, dtype=np.float64)  # [u, u]
    labels, starts = words_of(prompt.tokens)
    special = special_places(labels).tolist()
    resting = {*special, *(int(np.searchsorted(starts, key, side="right")) - 1 for key in sinks)}

    def read(at: int, key: int) -> dict[str, Any]:
        summary, most = max(seen, key=lambda pair: float(pair[1].most[0, at, key]))
        named = {"key": int(starts[key]), "key_token": labels[key].text, "share": float(shares[at, key])}
        place, head = summary.place, summary.place.heads[most.heads[at, key]]
        by = {"stream": place.stream, "layer": place.layer, "head": head, "weight": float(most.most[1, at, key])}
        return named | by

    reads = []
    for at in (at for at in range(len(labels)) if at not in special):
        order = [key for key in np.argsort(-shares[at], kind="stable").tolist() if key != at and key not in resting]
        sources = [read(at, key) for key in order[:_SOURCES] if shares[at, key] > 0]
        query = {"query": int(starts[at]), "query_token": labels[at].text}
        reads.append({**query, "own": read(at, at), "sources": sources})
    return reads


def strongest_link(reads: Reads, prompt: Prompt) -> str:
    """`strongest link: "bank" reads "river" 0.28 (next: "sat" 0.11)`; or that no word reads much of one other."""
    names, first = names_of(reads, prompt), clearest(reads)
    if first is None:
        most = max((word["sources"][0]["share"] for word in reads if word["sources"]), default=0.0)
        return f"nothing reads {LEAST_READ} of another: the most is {most:.3f}"
    link, *others = [f"{names[source['key']]} {source['share']:.2f}" for source in first["sources"][:2]]
    return f"strongest link: {names[first['query']]} reads {link}" + (f" (next: {others[0]})" if others else "")


def clearest(reads: Reads) -> dict[str, Any] | None:
    """The word of the strongest link; None without one."""
    return next(iter(taking_words(reads)), None)


def taking_words(reads: Reads) -> list[dict[str, Any]]:
    """The words that read 0.05 or more of another, first those whose largest share is farthest ahead of the second."""
    shares = [(word, [source["share"] for source in word["sources"]]) for word in reads if word["sources"]]
    taking = [(word, read[0] - sum(read[1:2])) for word, read in shares if read[0] >= LEAST_READ]
    return [word for word, _ in sorted(taking, key=lambda pair: -pair[1])]


def names_of(reads: Reads, prompt: Prompt) -> dict[int, str]:
    """By first token each word in quotes, with its place where it stands more than once."""
    texts = [word["query_token"].strip() for word in reads]
    return {
        word["query"]: name_of(word, prompt, numbered=texts.count(text) > 1)
        for word, text in zip(reads, texts, strict=True)
    }


def name_of(word: dict[str, Any], prompt: Prompt, *, numbered: bool = True) -> str:
    """A word in quotes, with the number of its first token if `numbered`: `"bank" 6`."""
    return quoted(cut(word["query_token"], _NAME)) + f" {word['query']}" * numbered
