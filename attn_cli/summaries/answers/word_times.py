"""The start and end of each word in audio, by the cross-attention of alignment heads.

The row of a token predicts the next one: a word begins where the path enters the row before its first token, and ends
where it enters the row of its last.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.fields import COUNT, NUMBER, POSITIVE, TEXT, Field, Output, Rows
from attn_cli.model.intervention import HeadPlace
from attn_cli.model.source import Aligning, Source
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.summaries.answers.alignment_search import FEW_ROWS, following, searched_heads
from attn_cli.summaries.answers.time_path import Motion, aligned, first_frames, mean_frames, motion
from attn_cli.summaries.calls.in_words import words_of
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix
from attn_cli.summaries.report import Answer

_MARK = re.compile(r"\s*(<\|.*\|>)?\s*")  # Whisper's marks of time, language and task, or nothing
_TIME = re.compile(r"\d+\.\d+s")

Choice = Literal["generation_config", "named", "found"]


class SpokenWord(NamedTuple):
    """A word with its start and end in seconds, where the attention's path through the audio enters and leaves it.

    token  its first token
    """

    token: Token
    text: str
    start: float
    end: float


class AlignedHead(NamedTuple):
    """A head of cross-attention to audio, and how the mean frame of its weights moves from row to row of the text."""

    place: HeadPlace
    motion: Motion


FIELDS = (
    Field("words", Rows((
        Field("query", COUNT, "the index of its first token in the decoder", "token.index"),
        Field("word", TEXT, value="text"),
        Field("start_seconds", POSITIVE, "where the path enters the row before its first token", "start"),
        Field("end_seconds", POSITIVE, "where the path enters the row of its last token", "end"),
    )), "in the order of the text"),
    Field("heads", Rows((
        Field("layer", COUNT, "the model's own block number", "place.layer"),
        Field("head", COUNT, "the model's own head number", "place.head"),
        Field("correlation", NUMBER, "of the number of a row with the mean frame of its weights", "motion.correlation"),
        Field("travel", NUMBER, "the share of the audio that the mean frames go over", "motion.travel"),
    )), "whose weights the path follows"),
    Field("chosen_by", {"type": "string", "enum": ["generation_config", "named", "found"]},
          "who chose these heads: the model's generation_config, the user, or their correlation"),
    Field("frames", {"type": "integer", "minimum": 1}, "how many frames of audio the path goes through"),
    Field("frame_seconds", {"type": "number", "exclusiveMinimum": 0}, "the length of one"),
    Field("filter_width", COUNT, "the frames over which the median of weights is taken"),
)  # fmt: skip
OUTPUT = Output(
    "attn.word_times/1",
    "attn top --times --json",
    "The words that a decoder reads, each with its start and end in the audio: where dynamic time warping "
    "through the cross-attention of alignment heads enters the row before its first token, and the row of its "
    "last.",
    FIELDS,
)


@dataclass(frozen=True, eq=False)
class WordTimes(Answer):
    """The words of a decoder's text with their times in the audio, by the path on which its attention goes through it.

    heads         the heads of cross-attention whose weights make the path
    chosen_by     who chose them: "generation_config", "named" by the user, or "found" by their motion
    frames        how many frames of audio the path goes through
    frame_seconds the length of one
    filter_width  the frames over which the median of weights is taken
    rows          the row of every token from which one of the words, or the end, is predicted
    entered       the frame, from 0, at which the path enters each of these rows
    matrix        `[rows, frames]`: the heads' weights, standardised over rows, whose sum along the path is largest
    """

    name: ClassVar[str] = "word_times"
    fields: ClassVar[Sequence[Field]] = FIELDS
    table: ClassVar[str] = "words"

    words: tuple[SpokenWord, ...]
    heads: tuple[AlignedHead, ...]
    chosen_by: Choice
    frames: int
    frame_seconds: float
    filter_width: int
    rows: tuple[int, ...]
    entered: np.ndarray
    matrix: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        """`alignment` `[rows, frames]`, standardised weights, its `queries` `[rows]`,
        and each row's first frame, `frames`.

        `words`, `start_seconds` and `end_seconds` are `[words]`; `heads` `[heads, 2]` are layer and head.
        """
        return {
            "alignment": self.matrix,
            "queries": np.array(self.rows),
            "frames": self.entered,
            "words": np.array([word.text for word in self.words], dtype=np.str_),
            "start_seconds": np.array([word.start for word in self.words]),
            "end_seconds": np.array([word.end for word in self.words]),
            "heads": np.array([(head.place.layer, head.place.head) for head in self.heads]),
        }


def word_times(source: object, prompt: Prompt, selection: Selection | None = None) -> WordTimes:
    """The times in the audio of the words that the decoder reads, or generated, as `WordTimes`.

    selection  the heads; None for those that the model's generation_config names, else those found to follow the audio

    Raises InputError for a model without cross-attention to frames of audio, for heads that it doesn't have, and where
    there are no words or no heads.

        source = open_source("openai/whisper-tiny", audio="speech.wav", decoder_text="the cat", predicts=True)
        word_times(source, source.read([""])[0]).words
    """
    if not isinstance(source, Aligning):
        raise InputError("word times are asked of a model that hears", "choose a model of speech with --model")
    named, filter_width = source.alignment
    rows, frames, frame_seconds = decoded_rows(source, prompt)
    tokens = prompt.others["decoder"]
    chosen_by: Choice = "named" if selection is not None else "generation_config" if named else "found"
    chosen = selection or (Selection(pairs=named) if named else _found(source, prompt, rows, frames))
    places, weights = _weights(source, prompt, chosen, rows, frames)
    motions = [motion(mean_frames(of_head), frames) for of_head in weights]
    matrix = aligned(weights, filter_width)
    entered = first_frames(matrix)
    heads = tuple(map(AlignedHead, places, motions))
    words = tuple(_words(tokens, rows, entered * frame_seconds))
    return WordTimes(words, heads, chosen_by, frames, frame_seconds, filter_width, rows, entered, matrix)


def _is_spoken(token: Token) -> bool:
    return not token.special and _MARK.fullmatch(token.text) is None


def _rows(tokens: Sequence[Token]) -> tuple[int, ...]:
    """The rows from that which predicts the first spoken token to that of the last one."""
    spoken = [at for at, token in enumerate(tokens) if at > 0 and _is_spoken(token)]
    if not spoken:
        raise InputError(
            "the decoder read no word whose time could be told", "add --decoder-text TEXT, or --generate N"
        )
    return tuple(range(spoken[0] - 1, spoken[-1] + 1))


def _words(tokens: Sequence[Token], rows: Sequence[int], seconds: np.ndarray) -> Iterator[SpokenWord]:
    """The words, punctuation with the word before it."""
    spoken = tokens[rows[1] : rows[-1] + 1]
    labels, starts = words_of(spoken)
    word: SpokenWord | None = None
    for label, first, stop in zip(labels, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        if not any(map(_is_spoken, spoken[first:stop])):
            continue
        start, end = round(float(seconds[first]), 4), round(float(seconds[stop]), 4)
        if word is not None and not any(map(str.isalnum, label.text)):
            word = word._replace(text=word.text + label.text.rstrip(), end=end)
            continue
        if word is not None:
            yield word
        word = SpokenWord(spoken[first], label.text.strip(), start, end)
    if word is not None:
        yield word


def _weights(
    source: Aligning, prompt: Prompt, selection: Selection, rows: Sequence[int], frames: int
) -> tuple[list[HeadPlace], np.ndarray]:
    """The chosen heads of cross-attention, and their weights `[h, rows, frames]`."""
    places: list[HeadPlace] = []
    weights: list[np.ndarray] = []

    def visit(call: Call) -> None:
        if call.place.stream == "cross" and call.h:
            part = reduce(call, FullMatrix(rows=rows, keys=range(frames))).part(Matrix)
            assert part is not None
            assert part.weights is not None
            places.extend(HeadPlace(call.place.layer, head, "cross") for head in call.place.heads)
            weights.append(part.weights)

    source.each([prompt], selection, visit)
    missing = set(selection.pairs or ()) - {(place.layer, place.head) for place in places}
    if not places or any(min(pair) >= 0 for pair in missing):
        which = "".join(f" {layer}.{head}" for layer, head in sorted(missing)[:1])
        raise InputError(f"there is no head{which} of cross-attention to the audio", "attn layers lists them as cross")
    found = np.concatenate(weights)
    if not np.isfinite(found).all():
        raise InputError("weights of these heads are NaN", "choose others with --head")
    return places, found


def _found(source: Aligning, prompt: Prompt, rows: Sequence[int], frames: int) -> Selection:
    """The heads that follow the audio; InputError where none does."""
    heads = searched_heads(source, prompt, rows, frames)
    pairs = following(heads)
    if len(rows) >= FEW_ROWS and pairs:
        return Selection(pairs=pairs)
    best = heads[0]
    name = f"{best.place.layer}.{best.place.head}"
    why = f"no head follows the audio: {name} does most, correlation {best.motion.correlation:.2f}"
    if len(rows) < FEW_ROWS:
        why = f"{len(rows)} rows are too few to find heads that follow the audio"
    elif best.goes_on:
        why = (
            f"no head follows the audio: {name} goes on with correlation {best.motion.correlation:.2f}, and "
            f"{best.reversed.correlation:.2f} when the audio is read from last to first"
        )
    raise InputError(f"generation_config names no alignment_heads, and {why}", "name heads with --head, as -H 1.2")


def decoded_rows(source: Source, prompt: Prompt) -> tuple[tuple[int, ...], int, float]:
    """The decoder's rows from which its words are predicted, the number of frames of audio, and a frame's seconds.

    Raises InputError for a prompt without frames of known seconds, and without words.
    """
    tokens, name = prompt.others.get("decoder", ()), f"{source.about['model']} ({source.about['type']})"
    if prompt.seconds is None or not prompt.tokens or not all(_TIME.fullmatch(frame.text) for frame in prompt.tokens):
        raise InputError(f"{name} reads no frames of known seconds",
                         "word times need cross-attention to audio, as Whisper's")  # fmt: skip
    if not tokens:
        raise InputError(f"{name} has no cross-attention to the audio",
                         "word times need an encoder and a decoder, as Whisper has")  # fmt: skip
    frame_seconds = float(prompt.tokens[-1].text[:-1]) / max(1, len(prompt.tokens) - 1)
    # those of which more than half is audio
    frames = min(len(prompt.tokens), max(1, ceil(prompt.seconds / frame_seconds - 0.5)))
    return _rows(tokens), frames, frame_seconds
