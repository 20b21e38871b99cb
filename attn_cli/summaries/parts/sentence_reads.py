"""How much the rows of each sentence give to every sentence before it, and the heads whose rows agree on some."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.kernel.bands.band import Band
from attn_cli.model.intervention import HeadPlace
from attn_cli.summaries.reduce import Part, Summary

_SHUFFLES = 20
_CLEAR = 5.0  # standard deviations of shuffled reads above their mean, from which sentences agree
_NEAR = 2  # a sentence and the one after it are read by most heads for their place
_FEWEST = 8  # sentences in which agreement can be told
_READERS = 4  # that a sentence needs for most of them to agree
_TIMES = 3.0  # what most readers give the sentence that they agree on, against what is usual


class Receiver(NamedTuple):
    """A head in which most later sentences read the same sentence 3 times as much as usual, or more, and agree on it.

    Later ones are those from the second after it on; they agree where `clear` is 5 or more.

    sentence  the number of the sentence that they read
    times     the median over later sentences of the weight they give it, over what is usual at their distance
    clear     how far the spread of what sentences receive is above what it is with each later sentence's weights
              shuffled among the earlier ones, in standard deviations
    """

    place: HeadPlace
    sentence: int
    times: float
    clear: float


@dataclass(frozen=True, eq=False)
class SentenceReads(Part):
    """How much sentences attend to each of S sentences before them, by head, against what is usual so far back.

    Later sentences are those from the second after a sentence on.

    received  the weight that a token of each sentence gets from a row of a later one, over what a sentence at that
              distance usually gets, mean over later sentences `[h, S]`; NaN where none is late enough
    median    the median of the same over later sentences; NaN where fewer than 4 are late enough
    clear     for each of h heads how far the spread of `received` over sentences is above what it is with each later
              sentence's weights shuffled among the earlier ones, in standard deviations of that `[h]`; NaN for fewer
              than 8 sentences
    """

    name: ClassVar[str] = "sentence_reads"

    received: np.ndarray
    median: np.ndarray
    clear: np.ndarray

    def records(self, summary: Summary) -> Iterator[dict[str, Any]]:
        """One row per head of the call that `summary` is of: layer, head and `clear`, NaN for fewer than 8 sentences.

        It is how far the spread of what sentences receive is above what it is with weights shuffled among them, in
        standard deviations of that.
        """
        for at, head in enumerate(summary.place.heads):
            yield {"layer": summary.place.layer, "head": head, "clear": float(self.clear[at])}

    def arrays(self) -> dict[str, np.ndarray]:
        """`received` and `median` `[h, S]`: the mean and the median, over later sentences, of the weight that each of S
        sentences gets from them, 1 for what is usual so far back; NaN where too few are later.

        `clear` `[h]` is how far the spread of `received` is above what it is with weights shuffled among sentences, in
        standard deviations of that.
        """
        return {"received": self.received, "median": self.median, "clear": self.clear}


class SentenceReadsReducer:
    """Adds up the weights of one call to `SentenceReads`: how much sentences attend to earlier ones.

    sentences  the tokens of each, ascending; other tokens are left out
    n          how many tokens the text has
    sinks      by head the keys that are left out of its reads, booleans `[h, m]`; may be set before each call
    """

    needs_scores, whole_heads = False, False

    def __init__(self, sentences: Sequence[Sequence[int]], n: int) -> None:
        self.sinks: np.ndarray | None = None
        of_token = np.full(n, -1)
        for number, tokens in enumerate(sentences):
            of_token[list(tokens)] = number
        self.rows: Sequence[int] | None = None
        self.of_token, self.sizes = of_token, np.array([max(len(tokens), 1) for tokens in sentences])
        self.begins = np.flatnonzero(np.diff(of_token, prepend=-2))  # of runs of tokens of one sentence
        self.orders = _shuffled_orders(len(sentences))

    def start(self, call: Call) -> None:
        """Allocate the sums of weights for a call of h heads: `[h, S, S]` for S sentences."""
        count = len(self.sizes)
        self.sums = np.zeros((call.h, count, count))  # weights of the rows of a sentence on each sentence

    def add(self, band: Band) -> None:
        """Add the weights of a band, adjacent query rows, by the sentences of query and key."""
        weights = to_numpy(band.weights)
        begins = np.unique(np.clip(self.begins, band.first, None))
        begins = begins[begins < band.last]
        of_runs = np.add.reduceat(weights, begins - band.first, axis=-1, dtype=np.float64)  # [h, b, runs]
        owners = self.of_token[begins]
        heads = range(len(self.sums))[band.heads]
        for at, key in () if self.sinks is None else np.argwhere(self.sinks[heads.start : heads.stop]).tolist():
            if band.first <= key < band.last:
                of_runs[at, :, np.searchsorted(begins, key, "right") - 1] -= weights[at, :, key - band.first]
        inside, readers = owners >= 0, self.of_token[band.start : band.stop]
        for reader in np.unique(readers[readers >= 0]).tolist():
            of_reader = of_runs[:, readers == reader].sum(axis=1)  # [h, runs]
            for at, own in zip(heads, of_reader, strict=True):
                self.sums[at, reader] += np.bincount(owners[inside], own[inside], len(self.sizes))

    def result(self) -> SentenceReads:
        """The `SentenceReads` of all added rows: mean and median of what each of S sentences gets from later ones.

        Both are relative to what is usual at that distance, by head; `clear` is how far the spread of the means is
        above what it is with weights shuffled among sentences, in standard deviations of that.
        """
        per_token = self.sums / self.sizes[:, None] / self.sizes
        received, median, clear = zip(*map(self._of_head, per_token), strict=True)
        return SentenceReads(np.stack(received), np.stack(median), np.array(clear))

    def _of_head(self, reads: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """What each sentence receives, in the mean and median, and how clear it is.

        reads  of each token of a reader to each token of a sentence `[reader, sentence]`
        """
        count = len(reads)
        readers, sentences = np.arange(count)[:, None], np.arange(count)
        valid = sentences <= readers - _NEAR
        distance = np.where(valid, readers - sentences, 0)
        sums = np.bincount(distance[valid], reads[valid], minlength=count)
        usual = sums / np.maximum(np.bincount(distance[valid], minlength=count), 1)
        relative = np.where(valid & (usual[distance] > 0), reads / np.maximum(usual[distance], 1e-30), 0.0)
        counts = valid.sum(axis=0)
        received = relative.sum(axis=0) / np.where(counts, counts, np.nan)
        read = np.flatnonzero(counts >= _READERS)  # the first ones
        median = np.full(count, np.nan)
        median[read] = [np.median(relative[at + _NEAR :, at]) for at in read]
        if count < _FEWEST:
            return received, median, float("nan")
        spread = _spread(relative, counts)
        shuffled = np.array([_spread(np.take_along_axis(relative, order, 1) * valid, counts) for order in self.orders])
        return received, median, float((spread - shuffled.mean()) / max(float(shuffled.std()), 1e-12))


def _spread(relative: np.ndarray, counts: np.ndarray) -> float:
    """The spread of what sentences receive, those that more sentences read counting more."""
    means = relative.sum(axis=0) / np.maximum(counts, 1)
    return float((counts * np.square(means - (counts * means).sum() / max(counts.sum(), 1))).sum())


def _shuffled_orders(count: int) -> list[np.ndarray]:
    """For every reader an order of the sentences that are far enough before it, `[reader, sentence]`, several times."""
    random = np.random.default_rng(0)
    valid = np.arange(count) <= np.arange(count)[:, None] - _NEAR
    return [np.argsort(np.where(valid, random.random((count, count)), 2.0), axis=1) for _ in range(_SHUFFLES)]


def receivers(summaries: Sequence[Summary]) -> list[Receiver]:
    """The heads in which most later sentences attend to the same one, 3 times as much as usual or more.

    Those alone in which the spread of what sentences receive is 5 standard deviations or more above that of shuffled
    weights; the largest multiple of the usual first. [] if there are none.
    """
    found = []
    for summary in summaries:
        part = summary.part(SentenceReads)
        for at, head in enumerate(() if part is None else summary.place.heads):
            assert part is not None
            if part.clear[at] >= _CLEAR:  # never nan
                sentence = int(np.nanargmax(part.median[at]))
                place = HeadPlace(summary.place.layer, head, summary.place.stream)
                found.append(Receiver(place, sentence, float(part.median[at, sentence]), float(part.clear[at])))
    return sorted((x for x in found if x.times >= _TIMES), key=lambda receiver: -receiver.times)


def received_by(summaries: Sequence[Summary], heads: Sequence[Receiver]) -> np.ndarray:
    """What each of S sentences gets from later ones `[S]`, over what is usual at that distance; mean over heads.

    NaN for the last two sentences: later ones are those from the second after a sentence on.

    heads  the heads; all if there are none
    """
    chosen = {(receiver.place.layer, receiver.place.head) for receiver in heads}
    rows = [
        own
        for summary in summaries
        if (part := summary.part(SentenceReads)) is not None
        for head, own in zip(summary.place.heads, part.received, strict=True)
        if not chosen or (summary.place.layer, head) in chosen
    ]
    means: np.ndarray = np.mean(rows, axis=0)
    return means
