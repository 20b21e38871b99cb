"""The heads that find content, and whether they copy: whether what they write raises the token that they read.

It is the direct contribution of a head, all that it reads together, to the logit of that token, less the mean over the
vocabulary: through W_O, the final norm with its statistics held, and the unembedding (Elhage et al. 2021, Olsson et al.
2022).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.errors import LoadError
from attn_cli.fields import COUNT, FINITE, FLAG, SHARE, TEXT, Field, Object, Rows
from attn_cli.model.intervention import HeadPlace
from attn_cli.model.source import Predicting, Source
from attn_cli.model.written_tokens import WrittenTokens
from attn_cli.prompt import Prompt
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.kinds.head_kinds import CONTENT, KINDS, Kind
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds

FIRST = 10  # tokens that a head raises most
LEAST_LOGIT, MOST_P = 0.1, 0.02  # of a head that copies
SHUFFLES = 1000
_MOST_TOKENS = 2048  # of a text that is run once more, with logits of every token
_MOST_ROWS, _MOST_LOGITS, _FEWEST = 128, 512, 8  # rows of all heads; of each together; of one head at least


@dataclass(frozen=True)
class CopyingHead:
    """What a head that finds content adds to the logit of the token that it attends to most, and whether it copies.

    Rows count in which its strongest key, sinks excluded, is one that its kind (induction, duplicate) looks for.

    rows      how many rows were looked at
    logit     its contribution through W_O to the logit of the key's token, less the mean over the vocabulary, mean over
              rows
    shuffled  the same with the distinct tokens of the text shuffled, mean of 1,000 shuffles
    raised_p  the share of shuffles, the text's own order counted as one, that give as much or more
    lowered_p  the share that give as little or less
    most      in how many of these rows no token is raised more than the one attended to
    first     in how many it is among the 10 that are raised most
    """

    place: HeadPlace
    rows: int
    logit: float
    shuffled: float
    raised_p: float
    lowered_p: float
    most: int
    first: int

    @property
    def name(self) -> str:
        """The head's name on a command line, layer and head: `18.6`."""
        return f"{self.place.layer}.{self.place.head}"

    @property
    def copies(self) -> bool:
        """True if it raises the logit of the token that it attends to by 0.1 or more, and not by chance."""
        return self.logit >= LEAST_LOGIT and self.raised_p <= MOST_P

    @property
    def suppresses(self) -> bool:
        """True if it lowers the logit of the token that it attends to by 0.1 or more, and not by chance."""
        return self.logit <= -LEAST_LOGIT and self.lowered_p <= MOST_P


@dataclass(frozen=True)
class Copying:
    """The heads of a text that find content (induction, duplicate),
    with what they add to the logit of the token they read.

    heads       those of them that could be tested
    vocabulary  how many tokens have a logit; 0 where nothing is known
    obstacle    why it isn't known of any head whether it copies; "" where it is
    """

    heads: tuple[CopyingHead, ...] = ()
    vocabulary: int = 0
    obstacle: str = ""

    def of(self, names: Sequence[str], stream: str) -> list[CopyingHead]:
        """The tested heads of a stream (self, cross ...) that have these names, such as "18.6", in their order."""
        known = {head.name: head for head in self.heads if head.place.stream == stream}
        return [known[name] for name in names if name in known]


COPYING = Field(
    "copying",
    Object((
        Field("heads", Rows((
            Field("layer", COUNT, value="place.layer"),
            Field("head", COUNT, value="place.head"),
            Field("stream", TEXT, value="place.stream"),
            Field("copies", FLAG, "true if logit is 0.1 or more, and raised_p 0.02 or less"),
            Field("suppresses", FLAG, "true if logit is -0.1 or less, and lowered_p 0.02 or less"),
            Field("logit", FINITE, "its direct contribution to the token's logit, less the mean logit, mean of rows"),
            Field("shuffled", FINITE, "the same with the text's distinct tokens shuffled, mean of 1,000 shuffles"),
            Field("raised_p", SHARE, "of shuffles that give as much or more"),
            Field("lowered_p", SHARE, "of shuffles that give as little or less"),
            Field("rows", COUNT, "in which a token that its kind looks at is its strongest key, sinks excluded"),
            Field("raised_most", COUNT, "rows in which it raises no token more", "most"),
            Field("among_first_10", COUNT, "rows in which it is among the 10 tokens raised most", "first"),
        )), "those of kinds that find content"),
        Field("vocabulary", COUNT, "how many tokens have a logit"),
        Field("obstacle", TEXT, "why it isn't known; empty where it is"),
    )),
    "whether what heads that find content write raises the token that they read; of models that write, for one text",
    optional=True,
)  # fmt: skip


@dataclass(frozen=True)
class _Reading:
    """The rows of a head in which it reads a token that its kind looks at, and the ids of these tokens."""

    place: HeadPlace
    rows: tuple[int, ...]
    tokens: tuple[int, ...]

    @property
    def reads(self) -> list[tuple[int, int]]:
        return list(zip(self.rows, self.tokens, strict=True))


def find_content(summaries: Sequence[Summary]) -> bool:
    """True if any head was judged to find content: to be an induction or duplicate head."""
    return any(next(_content_heads(part), None) is not None for x in summaries if (part := x.part(HeadKinds)))


def tell_copying(source: Source, prompt: Prompt, summaries: Sequence[Summary]) -> Copying | None:
    """Whether the heads that find content (induction, duplicate) copy the token they attend to, by one more run."""
    if not isinstance(source, Predicting) or not source.has_lm_head:
        return None
    tokens = prompt.others.get("decoder", prompt.tokens)
    readings = _sampled([x for summary in summaries if summary.queries == tokens for x in _readings(summary)])
    if not readings:
        return None
    if len(tokens) > _MOST_TOKENS:
        return Copying(obstacle=f"the text has more than {_MOST_TOKENS:,} tokens")
    ids = sorted({token.id for token in tokens if token.id is not None and not token.special})
    try:
        written = source.written_tokens(prompt, {x.place: x.reads for x in readings}, ids)
    except LoadError as error:
        return Copying(obstacle=error.message)
    found = [_measured(x, written[x.place], ids) for x in readings if x.place in written]
    if not found:
        return Copying(obstacle="no layer shows what its heads give before W_O")
    return Copying(tuple(found), next(iter(written.values())).vocabulary)


def _readings(summary: Summary) -> Iterator[_Reading]:
    """The heads of a call that find content, each with the rows in which it reads what its kind looks at most."""
    part = summary.part(HeadKinds)
    if part is None:
        return
    for at, kind in _content_heads(part):
        rows = np.flatnonzero(part.reading_rows(at, kind)).tolist()
        ids = [summary.keys[part.peaks.keys[at, row]].id for row in rows]
        known = [(row, id) for row, id in zip(rows, ids, strict=True) if id is not None]  # none of them is special
        place = HeadPlace(summary.place.layer, summary.place.heads[at], summary.place.stream)
        yield _Reading(place, tuple(row for row, _ in known), tuple(id for _, id in known))


def _content_heads(part: HeadKinds) -> Iterator[tuple[int, Kind]]:
    for at, number in enumerate(part.judged.kind.tolist()):
        if number >= 0 and KINDS[number].rank == CONTENT:
            yield at, KINDS[number]


def _sampled(readings: Sequence[_Reading]) -> list[_Reading]:
    """The same in up to 128 rows of the text, and so few of each head that all heads together have about 512."""
    every = sorted({row for x in readings for row in x.rows})
    kept = set(_evenly(every, _MOST_ROWS))
    most = max(_FEWEST, _MOST_LOGITS // max(1, len(readings)))
    found = []
    for x in readings:
        pairs = _evenly([pair for pair in x.reads if pair[0] in kept], most)
        if pairs:
            found.append(_Reading(x.place, tuple(row for row, _ in pairs), tuple(token for _, token in pairs)))
    return found


def _evenly(some: Sequence, most: int) -> list:  # type: ignore[type-arg]
    return [some[at] for at in np.linspace(0, len(some) - 1, min(most, len(some))).round().astype(int)]


def _measured(reading: _Reading, written: WrittenTokens, ids: Sequence[int]) -> CopyingHead:
    """What a head writes to the tokens that it reads, of the text's `ids`, and to others of them in their stead."""
    rows, own = np.arange(len(reading.rows)), np.array([ids.index(token) for token in reading.tokens])
    orders = np.argsort(np.random.default_rng(0).random((SHUFFLES, len(ids))), axis=1)  # one token stands for another
    logit, shuffled = written.logits[rows, own].mean(), written.logits[rows, orders[:, own]].mean(axis=1)
    near = 1e-6 * np.abs(written.logits).max()  # orders that leave all as it is may round differently
    raised, lowered = ((1 + int(each.sum())) / (1 + SHUFFLES) for each in (shuffled >= logit - near,
                                                                          shuffled <= logit + near))  # fmt: skip
    return CopyingHead(
        reading.place, len(rows), float(logit), float(shuffled.mean()), raised, lowered,
        int((written.ranks == 1).sum()), int((written.ranks <= FIRST).sum()),
    )  # fmt: skip
