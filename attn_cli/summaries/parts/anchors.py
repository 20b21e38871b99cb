"""attn parts --anchors: the sentences of a text that its later sentences, and its last one, rest on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attn_cli.call import Call, Look
from attn_cli.errors import InputError
from attn_cli.fields import COUNT, NUMBER, POSITIVE, TEXT, Field, Object, Output, Rows, made, or_none
from attn_cli.model.intervention import Experiment, Intervention, NoiseFloor
from attn_cli.model.source import Predicting
from attn_cli.prompt import Prompt
from attn_cli.selection import ALL, Selection
from attn_cli.summaries.parts.hidden import NEEDED_BITS, NEEDED_SHARE, rows_after
from attn_cli.summaries.parts.sentence_reads import Receiver, SentenceReadsReducer, received_by, receivers
from attn_cli.summaries.parts.text_parts import TextPart
from attn_cli.summaries.reduce import Summary, reduce, with_part
from attn_cli.summaries.reducers.sinks import HeadSinks, HeadSinksReducer
from attn_cli.summaries.report import Answer
from attn_cli.summaries.text_sinks import sinks_by_heads

MOST_MASKED = 32
"""Sentences that are masked one by one: those that later ones read most, each a run of the rows after it."""


class Leaning(NamedTuple):
    """A later sentence's number, from 0, and the change of its log2 p, in bits, with an earlier sentence masked."""

    sentence: int
    bits: float


@dataclass(frozen=True)
class Anchor:
    """A sentence, what later ones attend to it, and what they lose with it masked.

    number   its place among the sentences, from 0
    vs_usual  the weight that a token of it gets from later sentences over what a sentence at their distance usually
             gets, mean over the heads in which most sentences read the same one (all heads if there are none); None for
             the last two, as those from the second after a sentence on count
    bits     change of log2 p of all later sentences, added up, with it masked for all rows after it, negative where
             they need it; None where it wasn't masked
    leaning  the later sentences that need it, with the change of each one's log2 p: -1 bit or below, and a
             quarter or more of its largest loss by any masked sentence
    answer_bits  the change of the last sentence's log2 p, in bits; None where it wasn't masked
    """

    number: int
    part: TextPart
    text: str
    vs_usual: float | None
    bits: float | None = None
    leaning: tuple[Leaning, ...] = ()
    answer_bits: float | None = None


_LEANING = (
    Field("sentence", COUNT, "its number, from 0"),
    Field("bits", NUMBER, "change of its log2 p with the earlier sentence masked"),
)
_ANCHOR = (
    Field("sentence", COUNT, "its number, from 0", "number"),
    Field("text", TEXT),
    Field("first_token", or_none(COUNT), value=lambda anchor: anchor.part.tokens[0] if anchor.part.tokens else None),
    Field("tokens", COUNT, "how many it has", lambda anchor: len(anchor.part.tokens)),
    Field("vs_usual", NUMBER, "mean attention of later sentences to its tokens in the receiver heads (all heads where "
          "there are none), 1 = as much as usual at that distance; null where too few attend to it"),
    Field("bits", NUMBER, "change of log2 p of all later sentences with it masked for all rows after it; null where "
          "it was not masked"),
    Field("answer_bits", NUMBER, "the same of the last sentence alone"),
)  # fmt: skip
FIELDS = (
    Field("sentences", Rows((*_ANCHOR, Field("needed_by", Rows(_LEANING), "later sentences that it makes half as "
          "likely or less, and that lose a quarter or more of the most that they lose to any", "leaning"))),
          "in the order of the text", "anchors"),
    Field("receivers", Rows((
        Field("layer", COUNT, value="place.layer"),
        Field("head", COUNT, value="place.head"),
        Field("sentence", COUNT, "the one that most later sentences read much more than usual"),
        Field("times", NUMBER, "what half of the later sentences give it at least, against what is usual at that "
              "distance"),
        Field("clear", NUMBER, "spread of what sentences receive above that of shuffled reads, in their standard "
              "deviations"),
    )), "heads in which most later sentences read the same one 3 times as much as usual or more, and agree beyond "
          "shuffled reads; the strongest first"),
    Field("heads", COUNT, "how many heads there are"),
    Field("noise_floor", Object((Field("effect", POSITIVE),)), "largest effect of untouched copies, in bits"),
)  # fmt: skip
OUTPUT = Output(
    "attn.anchors/1",
    "attn parts --anchors --json",
    "The sentences of a text, and which later ones rest on each: log2 p of every later sentence with one "
    "sentence masked for all rows after it, and how much later sentences attend to it.",
    FIELDS,
)


@dataclass(frozen=True, eq=False)
class Anchors(Answer):
    """The sentences of a text, each with what later ones attend to it, and what they lose with it masked.

    anchors    one for each sentence, in the order of the text
    receivers  the heads in which most later sentences attend to the same sentence
    heads      how many heads there are
    noise_floor  the largest changes of log2 p, in bits, in runs in which nothing was masked: rounding
    """

    name: ClassVar[str] = "anchors"
    fields: ClassVar[Sequence[Field]] = FIELDS
    table: ClassVar[str] = "sentences"

    anchors: tuple[Anchor, ...]
    receivers: tuple[Receiver, ...]
    heads: int
    noise_floor: NoiseFloor
    summaries: tuple[Summary, ...] = ()

    @property
    def order(self) -> list[Anchor]:
        """The sentences that were masked, those first without which later ones lose most: the most negative `bits`."""
        return sorted((x for x in self.anchors if x.bits is not None), key=lambda anchor: (anchor.bits, anchor.number))

    @property
    def of_answer(self) -> list[tuple[Anchor, float]]:
        """The sentences that the last one needs, each with the change of its log2 p in bits, most negative first.

        Without them it loses a bit or more, and a quarter or more of its largest loss by any masked sentence.
        """
        last = self.anchors[-1].number
        found = [(anchor, x.bits) for anchor in self.anchors for x in anchor.leaning if x.sentence == last]
        return sorted(found, key=lambda pair: pair[1])

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per sentence: sentence (its number), text, first_token, tokens, vs_usual, bits and answer_bits.

        `vs_usual` is the weight that it gets, 1 for what is usual at its distance; `bits` and `answer_bits` are the
        changes of log2 p of all later sentences and of the last with it masked, None where it wasn't.
        """
        return (made(_ANCHOR, anchor) for anchor in self.anchors)

    def arrays(self) -> dict[str, np.ndarray]:
        """`bits`, `answer_bits` and `vs_usual` of every sentence `[sentences]`; NaN where unknown.

        The changes of log2 p of all later sentences, and of the last, with it masked; and the weight that it gets from
        later ones over what is usual at its distance.
        """
        return {
            name: np.array([np.nan if (x := getattr(anchor, name)) is None else x for anchor in self.anchors])
            for name in ("bits", "answer_bits", "vs_usual")
        }


def anchors_of(
    source: Predicting, prompt: Prompt, parts: Sequence[TextPart], selection: Selection = ALL,
    step: Callable[[], None] = lambda: None,
) -> Anchors:  # fmt: skip
    """The sentences of a text, `parts` in order, with what later ones attend to them and lose with them masked.

    All but the first are the answer of the prompt. The 32 that are attended to most are masked, one by one.

    selection  the layers and heads that are looked at, and from which a sentence is masked
    step       called after every layer and every masked sentence

    Raises InputError for a model that predicts no next token, and for fewer than two sentences.
    """
    watcher = _Watcher(prompt, parts, step)
    earliest = rows_after(parts[0], len(prompt.tokens))[0] if parts and parts[0].tokens else None
    experiment = source.experiment(prompt, earliest=earliest, look=Look(selection, watcher.visit))
    target = experiment.target
    if target is None or not target.generated or len(parts) < 2 or "decoder" in prompt.others:
        raise InputError("--anchors takes two sentences or more, and a model that continues its text",
                         "choose finer parts with --cut lines")  # fmt: skip
    if not experiment.visited:
        watcher.forget()
        source.each([prompt], selection, watcher.visit)
    found = receivers(watcher.summaries)
    read = received_by(watcher.summaries, found)
    masked = _most_read(read)
    bits = _bits(experiment, prompt, parts, masked, watcher.sinks(), selection, step)
    anchors = tuple(_anchor(prompt, parts, read, bits, at) for at in range(len(parts)))
    heads = sum(len(summary.place.heads) for summary in watcher.summaries)
    return Anchors(anchors, tuple(found), heads, experiment.noise_floor, tuple(watcher.summaries))


def _bits(
    experiment: Experiment,
    prompt: Prompt,
    parts: Sequence[TextPart],
    masked: Sequence[int],
    sinks: frozenset[int],
    selection: Selection,
    step: Callable[[], None],
) -> np.ndarray:
    """Bits that each sentence loses with each masked one out of sight `[masked, later]`; nan in rows of the others."""
    n = len(prompt.tokens)
    keys = [tuple(token for token in parts[at].tokens if token not in sinks) or parts[at].tokens for at in masked]
    interventions = [
        Intervention(hidden=own, rows=rows_after(parts[at], n), hidden_from=selection)
        for at, own in zip(masked, keys, strict=True)
    ]
    owner = np.full(n, len(parts))
    for number, part in enumerate(parts):
        owner[list(part.tokens)] = number
    assert experiment.target is not None
    owners = owner[[token.index for token in experiment.target.tokens]]
    bits = np.full((len(parts), len(parts)), np.nan)
    for at, outcome in zip(masked, experiment.outcomes(interventions), strict=True):
        bits[at] = np.bincount(owners, outcome.token_bits, len(parts) + 1)[:-1]
        step()
    bits[np.abs(bits) < NoiseFloor.FACTOR * experiment.noise_floor.effect] = 0
    return bits


def _most_read(read: np.ndarray) -> list[int]:
    """The sentences that are masked, ascending: those that later ones read most, and all that none can be told of."""
    count = len(read) - 1  # nothing comes after the last
    wish = np.where(np.isnan(read), np.inf, read)[:count]
    return sorted(np.argsort(-wish, kind="stable")[:MOST_MASKED].tolist())


def _anchor(prompt: Prompt, parts: Sequence[TextPart], read: np.ndarray, bits: np.ndarray, at: int) -> Anchor:
    part, own = parts[at], None if np.isnan(read[at]) else float(read[at])
    text = part.text(prompt.text).strip()
    if np.isnan(bits[at]).all():
        return Anchor(at, part, text, own)
    most = np.nanmin(bits[:, at + 1 :], axis=0)  # of any sentence that was masked
    of_later = bits[at, at + 1 :]
    needs = of_later <= -np.maximum(NEEDED_BITS, -NEEDED_SHARE * most)
    leaning = tuple(Leaning(at + 1 + int(x), float(of_later[x])) for x in np.flatnonzero(needs))
    return Anchor(at, part, text, own, float(of_later.sum()), leaning, float(bits[at, -1]))


class _Watcher:
    """Keeps what sentences read, and sinks, of every call that reads the text."""

    def __init__(self, prompt: Prompt, parts: Sequence[TextPart], step: Callable[[], None]) -> None:
        self.prompt, self.step, self.of_sinks = prompt, step, HeadSinksReducer()
        self.reads = SentenceReadsReducer([part.tokens for part in parts], len(prompt.tokens))
        self.forget()

    def forget(self) -> None:
        """Drop what was collected, for a pass that begins anew."""
        self.summaries: list[Summary] = []

    def visit(self, call: Call) -> None:
        """Take in one attention call while the model runs."""
        if len(call.keys) == len(call.queries) == len(self.prompt.tokens):
            sinks = reduce(call, self.of_sinks)
            part = sinks.part(HeadSinks)
            self.reads.sinks = None if part is None else part.reception.is_sink
            reads = reduce(call, self.reads)
            self.summaries.append(replace(reads, parts=(*reads.parts, *sinks.parts)))
        self.step()

    def sinks(self) -> frozenset[int]:
        """Keys that are sinks of the text."""
        parts = [part for _, part in with_part(self.summaries, HeadSinks)]
        of_heads = np.sum([part.reception.is_sink.sum(axis=0) for part in parts], axis=0)
        heads = sum(len(summary.place.heads) for summary in self.summaries)
        return frozenset(sinks_by_heads(of_heads, heads).tolist())
