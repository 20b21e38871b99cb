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

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.fields import COUNT, NUMBER, POSITIVE, TEXT, Field, Rows
from attn_cli.kernel.bands.picked_rows import RowPlaces
from attn_cli.model.intervention import HeadPlace
from attn_cli.model.source import Aligning
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.summaries.answers.time_path import Motion, aligned, first_frames, mean_frames, motion
from attn_cli.summaries.calls.in_words import words_of
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix
from attn_cli.summaries.report import Answer

_MARK = re.compile(r"\s*(<\|.*\|>)?\s*")  # Whisper's marks of time, language and task, or nothing
_TIME = re.compile(r"\d+\.\d+s")
_FOLLOWS = 0.9  # the correlation from which a head is found to follow the audio
_GOES = 0.25  # the share of the audio that it then goes over
_FEW_ROWS = 4  # of fewer rows any head may seem to follow
_MOST = 10  # heads that are found

Choice = Literal["generation_config", "named", "found"]


class SpokenWord(NamedTuple):
    """A word with its start and end in seconds; `token` is its first."""

    token: Token
    text: str
    start: float
    end: float


class AlignedHead(NamedTuple):
    """A head, and how its mean frame goes down the rows."""

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


@dataclass(frozen=True, eq=False)
class WordTimes(Answer):
    """The words of a decoder's text with their times in the audio.

    chosen_by     who chose the heads
    frames        how many frames the path goes through
    frame_seconds the length of one
    filter_width  the frames over which the median of weights is taken
    rows          the row of every token from which one of the words, or the end, is predicted
    entered       the frame at which the path enters each of these rows
    matrix        what the path goes along `[rows, frames]`
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
        """`alignment` `[rows, frames]`, whose path gives the times, `queries` and `frames` of its rows, the words."""
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
    """The times of the words that the decoder reads, or generated.

    selection  the heads; None for those that the model's generation_config names, else those found to follow the audio

    Raises InputError for a model without cross-attention to frames of audio, for heads that it doesn't have, and where
    there are no words or no heads.

        source = open_source("openai/whisper-tiny", audio="speech.wav", decoder_text="the cat", predicts=True)
        word_times(source, source.read([""])[0]).words
    """
    if not isinstance(source, Aligning):
        raise InputError("word times are asked of a model that hears", "choose a model of speech with --model")
    named, filter_width = source.alignment
    tokens = prompt.others.get("decoder", ())
    if prompt.seconds is None or not all(_TIME.fullmatch(frame.text) for frame in prompt.tokens) or not prompt.tokens:
        raise InputError(f"{source.about['model']} ({source.about['type']}) reads no frames of known seconds",
                         "word times need cross-attention to audio, as Whisper's")  # fmt: skip
    if not tokens:
        raise InputError(f"{source.about['model']} ({source.about['type']}) has no cross-attention to the audio",
                         "word times need an encoder and a decoder, as Whisper has")  # fmt: skip
    frame_seconds = float(prompt.tokens[-1].text[:-1]) / max(1, len(prompt.tokens) - 1)
    # those of which more than half is audio
    frames = min(len(prompt.tokens), max(1, ceil(prompt.seconds / frame_seconds - 0.5)))
    rows = _rows(tokens)
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
    """The heads whose mean frame goes on with the rows, those with the largest correlation."""
    motions: dict[tuple[int, int], Motion] = {}

    def visit(call: Call) -> None:
        if call.place.stream == "cross":
            centres = _centres(call, rows, frames)
            motions.update(
                ((call.place.layer, head), motion(of_head, frames))
                for head, of_head in zip(call.place.heads, centres, strict=True)
            )

    source.each([prompt], Selection(), visit)
    if not motions:
        raise InputError(f"{source.about['model']} ({source.about['type']}) has no cross-attention to the audio",
                         "word times need an encoder and a decoder, as Whisper has")  # fmt: skip
    best = sorted(motions, key=lambda pair: -motions[pair].correlation)
    pairs = [pair for pair in best if motions[pair].correlation >= _FOLLOWS and motions[pair].travel >= _GOES]
    if len(rows) < _FEW_ROWS or not pairs:
        layer, head = best[0]
        why = (
            f"{len(rows)} rows are too few to find heads that follow the audio"
            if len(rows) < _FEW_ROWS
            else f"no head follows the audio: {layer}.{head} does most, correlation {motions[best[0]].correlation:.2f}"
        )
        raise InputError(f"generation_config names no alignment_heads, and {why}", "name heads with --head, as -H 1.2")
    return Selection(pairs=tuple(sorted(pairs[:_MOST])))


def _centres(call: Call, rows: Sequence[int], frames: int) -> np.ndarray:
    """The mean frame `[h, rows]` of each row, band by band."""
    centres, places = np.zeros((call.h, len(rows))), RowPlaces(rows, call.n)
    for band in call.bands(rows=rows):
        fit = places.of(band)
        if fit is not None:
            weights = to_numpy(band.weights[:, fit.inside, :]).astype(np.float64)[..., : max(0, frames - band.first)]
            centres[band.heads, fit.kept] = mean_frames(weights) + band.first
    return centres
