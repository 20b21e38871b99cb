"""The story of an answer: what comes next, the words that it rests on, and the heads that bring them.

Every effect is measured: a word is masked, or a head's output set to 0, in the rows that decide, and the answer's
log2 p is compared. All of that is one run of these rows on the keys and values of the run before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attn_cli.fields import COUNT, FINITE, TEXT, Field, Object, Rows, each, or_none
from attn_cli.model.intervention import Experiment, HeadPlace, Intervention, Target
from attn_cli.prompt import Generated, Prompt, Token
from attn_cli.summaries.parts.text_parts import TextPart, parts_of, rows_before_generated, rows_of_last
from attn_cli.summaries.reduce import Summary, with_part
from attn_cli.summaries.told.deciding_rows import DecidingRows
from attn_cli.summaries.told.read_keys import resting_keys

LEAST_BITS = 0.1  # of an effect that is told
SHORT = 200  # tokens of a text that is told by its words; a longer one is told by its sentences or lines
_WORDS, _HEADS, _FEWEST = 8, 24, 6  # tried at most; of both together at least so many
_MOST_ROWS = 64  # of a last part that reads; of a longer one the last row reads alone
LEAST_WEIGHT = 0.1  # of a head on a word that it is said to read


@dataclass(frozen=True)
class WordReader:
    """The head that attends to a word most in the rows that choose the answer, and what the answer loses without it.

    weight  the mean weight on the word's tokens together
    effect  change of the answer's log2 p, in bits, with the head's output set to 0; 0 for what may be rounding
    """

    place: HeadPlace
    weight: float
    effect: float


@dataclass(frozen=True)
class StoryWord:
    """A word of the text, or a part of a long text, and the effect of masking its tokens on the answer.

    effect  change of the answer's log2 p, in bits; 0 for what can't be told from rounding
    reader  of a word, the head that reads it most: by weight times estimated effect, or weight times value norm where
            effects aren't estimated; None where no head gives it 0.1 of its weight
    """

    name: str
    text: str
    tokens: tuple[Token, ...]
    effect: float
    reader: WordReader | None = None


@dataclass(frozen=True)
class StoryHead:
    """A head that attends to some token in the rows that choose the answer, and what the answer loses without it.

    reads   the token that it attends to most, sinks excluded, and the mean weight on it
    effect  change of the answer's log2 p, in bits, with the head's output set to 0; 0 for what may be rounding
    """

    place: HeadPlace
    reads: tuple[Token, float]
    effect: float

    @property
    def name(self) -> str:
        """Its layer and head: `18.6`."""
        return f"{self.place.layer}.{self.place.head}"


@dataclass(frozen=True)
class Story:
    """What the predicted token needs: the words and heads without which it is less likely.

    Effects are changes of its log2 p in bits, with words masked or a head's output set to 0.

    target     the answer: the likeliest next token, or what was generated
    likeliest  the 5 likeliest next tokens of the last of the rows, with their probabilities
    rows       the rows that choose the answer, in which words are masked and heads ablated
    cut        what the text is divided into: words, sentences or lines
    words      those that were masked, the most needed first
    heads      those that were ablated, the most needed first
    rounding   the largest |effect| of a run in which nothing was changed
    obstacle   why nothing was masked; "" where it was
    is_last    whether the rows end the text
    written    what was generated; None where the answer is the next token
    """

    target: Target
    likeliest: tuple[tuple[Token, float], ...]
    rows: tuple[int, ...]
    cut: str = "words"
    words: tuple[StoryWord, ...] = ()
    heads: tuple[StoryHead, ...] = ()
    rounding: float = 0.0
    obstacle: str = ""
    is_last: bool = True
    written: Generated | None = None

    @property
    def answer(self) -> str:
        """The text of the answer: of the likeliest next token, or of what was generated."""
        written = "" if self.written is None else self.written.text
        return written or "".join(token.text for token in self.target.tokens)

    @property
    def needed(self) -> list[StoryWord]:
        """The words without which log2 p of the answer falls by 0.1 bits or more, the most needed first."""
        return [word for word in self.words if word.effect <= -LEAST_BITS]

    @property
    def bringing(self) -> list[StoryHead]:
        """The heads without which log2 p of the answer falls by 0.1 bits or more, the most needed first."""
        return [head for head in self.heads if head.effect <= -LEAST_BITS]

    def readers_of(self, word: StoryWord) -> list[StoryHead]:
        """The heads that bring the answer and read a word most, the most needed first."""
        own = {token.index for token in word.tokens}
        return [head for head in self.bringing if head.reads[0].index in own]

    @property
    def main_head(self) -> StoryHead | None:
        """The most needed head that reads the word needed most, else the most needed head; None without any."""
        of_words = (head for word in self.needed for head in self.readers_of(word))
        return next(of_words, next(iter(self.bringing), None))

    @property
    def opposing(self) -> list[StoryHead]:
        """The heads without which log2 p of the answer rises by 0.1 bits or more, the largest effect first."""
        return [head for head in reversed(self.heads) if head.effect >= LEAST_BITS]


_NEXT = (
    Field("text", TEXT, value=lambda pair: pair[0].text),
    Field("id", or_none(COUNT), value=lambda pair: pair[0].id),
    Field("probability", FINITE, value=lambda pair: pair[1]),
)
_WORD = (
    Field("name", TEXT, "as attn parts --json names it"),
    Field("text", TEXT),
    Field("indices", each(COUNT), value=lambda word: [token.index for token in word.tokens]),
    Field("bits", FINITE, "change of log2 p of the answer with it masked in these rows; 0: rounding", "effect"),
    Field("reader", Object((
        Field("layer", COUNT, value="place.layer"),
        Field("head", COUNT, value="place.head"),
        Field("stream", TEXT, value="place.stream"),
        Field("weight", FINITE, "on the word, mean over these rows"),
        Field("bits", FINITE, "change of log2 p of the answer with its output set to 0 in these rows", "effect"),
    )), "the head that reads the word most; missing where none gives it 0.1, and of parts of long texts",
          optional=True),
)  # fmt: skip
_HEAD = (
    Field("layer", COUNT, value="place.layer"),
    Field("head", COUNT, value="place.head"),
    Field("stream", TEXT, value="place.stream"),
    Field("key", COUNT, "the token that it attends to most, sinks excluded", lambda head: head.reads[0].index),
    Field("key_token", TEXT, value=lambda head: head.reads[0].text),
    Field("weight", FINITE, "mean over these rows", lambda head: head.reads[1]),
    Field("bits", FINITE, "change of log2 p of the answer with its output set to 0 in these rows", "effect"),
)
STORY = Field(
    "story",
    Object((
        Field("answer", TEXT, "the likeliest next token, or what was generated"),
        Field("probability", FINITE, value="target.probability"),
        Field("next", Rows(_NEXT), "the likeliest next tokens", "likeliest"),
        Field("rows", each(COUNT), "the rows that decide", lambda story: list(story.rows)),
        Field("cut", TEXT, "what was masked: words, sentences or lines"),
        Field("words", Rows(_WORD), "those that these rows read most, the most needed first"),
        Field("heads", Rows(_HEAD), "those of the largest estimated effects, by their measured ones"),
        Field("noise_floor", FINITE, "the largest effect of an untouched copy", "rounding"),
        Field("obstacle", TEXT, "why nothing was masked; empty where it was"),
    )),
    "what comes next, the words that it rests on and the heads that bring them; of models that write, for one text",
    optional=True,
)  # fmt: skip


def deciding_rows(prompt: Prompt) -> tuple[int, ...]:
    """The indices of the rows that choose the answer: those before generated tokens; else the last, or last part's."""
    if chosen := rows_before_generated(prompt):
        return chosen
    tokens = prompt.others.get("decoder", prompt.tokens)
    rows = rows_of_last(prompt, _cut(prompt)[1]) if len(tokens) > SHORT and "decoder" not in prompt.others else ()
    return rows if 0 < len(rows) <= _MOST_ROWS else (len(tokens) - 1,)


def tell(
    experiment: Experiment,
    prompt: Prompt,
    summaries: Sequence[Summary],
    step: Callable[[int, int], None] = lambda done, count: None,
) -> Story | None:
    """The words and heads that the answer of a prompt needs, found by masking and ablating in the last rows."""
    story = _told(experiment, prompt, summaries, step)
    return replace(story, written=prompt.generated) if story is not None and story.target.generated else story


def _told(
    experiment: Experiment, prompt: Prompt, summaries: Sequence[Summary], step: Callable[[int, int], None]
) -> Story | None:
    target = experiment.target
    if target is None:
        return None
    rows, likeliest = tuple(experiment.rows), experiment.likeliest
    seen = with_part(summaries, DecidingRows)
    if not seen or seen[0][0].keys != prompt.tokens:
        return Story(target, likeliest, rows, obstacle="the rows that decide don't read the text")
    cut, parts = _cut(prompt)
    sinks = resting_keys(seen)
    budget = max(len(prompt.tokens) // len(rows), _FEWEST)  # runs of these rows that take about one pass
    candidates = _words_tried(parts, seen, sinks, rows[-1], budget)
    masked = {at for _, tokens in candidates for at in tokens}
    estimates = experiment.estimated_effects() if candidates else {}
    heads = _heads_tried(seen, sinks, masked, estimates)
    readers = [_reader(tokens, seen, estimates) if cut == "words" else None for _, tokens in candidates]
    of_words = {reader[0] for reader in readers if reader is not None}
    count = min(_HEADS, budget - len(candidates))
    heads = heads[:count] + [head for head in heads[count:] if head[0] in of_words]
    trials = [Intervention(hidden=tokens) for _, tokens in candidates]
    choosing = tuple(sorted(set(target.rows)))
    trials += [Intervention(ablated=(place,), rows=choosing) for place, _ in heads]
    outcomes = experiment.outcomes_from_cache(trials, step) if trials else []
    if outcomes is None:
        reason = experiment.no_cache_reason or "the last rows can't run alone"
        return Story(target, likeliest, rows, cut, obstacle=reason)
    floor = experiment.noise_floor
    effects = [0.0 if floor.is_rounding(outcome.effect) else outcome.effect for outcome in outcomes]
    of_heads = {place: effect for (place, _), effect in zip(heads, effects[len(candidates) :], strict=True)}
    words = [
        StoryWord(part.name, part.text(prompt.text).strip(), tuple(prompt.tokens[at] for at in part.tokens), effect,
                  None if reader is None or reader[0] not in of_heads else WordReader(*reader, of_heads[reader[0]]))
        for (part, _), effect, reader in zip(candidates, effects, readers, strict=False)
    ]  # fmt: skip
    bringing = [StoryHead(place, reads, of_heads[place]) for place, reads in heads]
    return Story(
        target, likeliest, rows, cut, tuple(sorted(words, key=lambda word: word.effect)),
        tuple(sorted(bringing, key=lambda head: head.effect)), floor.effect,
        is_last=rows[-1] == len(prompt.tokens) - 1,
    )  # fmt: skip


def _cut(prompt: Prompt) -> tuple[str, tuple[TextPart, ...]]:
    """The division of a text: into words, of a long one into lines, or into sentences where a line holds half of it."""
    if len(prompt.tokens) > SHORT:
        for how in ("lines", "sentences"):
            parts = parts_of(prompt, how)
            given = [len(part.tokens) for part in parts if part.kind == "given"]
            if len(given) > 2 and (how == "sentences" or 2 * max(given) <= len(prompt.tokens)):
                return how, parts
    return "words", parts_of(prompt, "words")


def _words_tried(
    parts: Sequence[TextPart],
    seen: Sequence[tuple[Summary, DecidingRows]],
    sinks: set[int],
    last: int,
    budget: int,
) -> list[tuple[TextPart, tuple[int, ...]]]:
    strength = np.sum([part.strength for _, part in seen], axis=0)
    own = [(part, tuple(at for at in part.tokens if at not in sinks and at != last)) for part in parts]
    own = [(part, tokens) for part, tokens in own if tokens and part.kind != "other"]
    own.sort(key=lambda pair: -float(strength[list(pair[1])].sum()))
    return own[: min(_WORDS, -(-budget // 2))]


def _heads_tried(
    seen: Sequence[tuple[Summary, DecidingRows]],
    sinks: set[int],
    masked: set[int],
    estimates: Mapping[HeadPlace, float],
) -> list[tuple[HeadPlace, tuple[Token, float]]]:
    """The heads that may be ablated, each with the token past sinks that has its largest weight, and that weight."""
    heads: list[tuple[float, HeadPlace, tuple[Token, float]]] = []
    for summary, part in seen:
        for at, head in enumerate(summary.place.heads):
            place = HeadPlace(summary.place.layer, head, summary.place.stream)
            kept = zip(part.lengths[at].tolist(), part.keys[at].tolist(), part.weights[at].tolist(), strict=True)
            read = [own for own in kept if (own[1] not in sinks if estimates else own[1] in masked)]
            length, key, weight = max(read, key=lambda own: own[2], default=(0.0, 0, 0.0))
            if weight >= LEAST_WEIGHT:
                heads.append(
                    (abs(estimates.get(place, 0.0)) if estimates else length, place, (summary.keys[key], weight))
                )
    heads.sort(key=lambda head: -head[0])
    return [(place, reads) for _, place, reads in heads]


def _reader(
    tokens: tuple[int, ...], seen: Sequence[tuple[Summary, DecidingRows]], estimates: Mapping[HeadPlace, float]
) -> tuple[HeadPlace, float] | None:
    """The head that reads a word most in the rows that decide, and its mean weight on the word's tokens together."""
    found: list[tuple[float, float, HeadPlace, float]] = []
    for summary, part in seen:
        own = np.isin(part.keys, tokens)  # [h, k]
        weights, lengths = (part.weights * own).sum(axis=1), (part.lengths * own).sum(axis=1)
        for at in np.flatnonzero(weights >= LEAST_WEIGHT).tolist():
            place = HeadPlace(summary.place.layer, summary.place.heads[at], summary.place.stream)
            weight = float(weights[at])
            found.append((max(0.0, -estimates.get(place, 0.0)) * weight, float(lengths[at]), place, weight))
    return max(found)[2:] if found else None
