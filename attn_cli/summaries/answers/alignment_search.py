"""The heads of cross-attention that follow audio as the text goes on, held against the same audio in another order.

A head follows the audio if its mean frame goes on with the rows, its rows are sharp, and both end when the audio's
pieces are read from last to first: a head that goes on all the same reads places, not sound.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.arrays import to_numpy
from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.fields import COUNT, FLAG, NUMBER, Field
from attn_cli.kernel.bands.picked_rows import RowPlaces
from attn_cli.model.intervention import HeadPlace
from attn_cli.model.source import Aligning
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.summaries.answers.time_path import Motion, mean_frames, motion

FEW_ROWS = 4  # of fewer rows any head may seem to follow
PIECES = 8  # of the audio, which the control reads from last to first
_FOLLOWS = 0.9  # the correlation from which a head is found to follow the audio
_GOES = 0.25  # the share of the audio that it then goes over
_SHARP = 0.2  # the share of the audio that a row may be spread over: its standard deviation; evenly over all is 0.29
_ALIKE = 0.5  # the correlation in the control from which a head goes on whatever it hears
_MOST = 10  # heads that are named


@dataclass(frozen=True)
class SearchedHead:
    """A head of cross-attention, and how its weights move through the audio's frames from row to row of the text.

    The mean frame of a row is the mean of frame numbers weighted by its attention weights.

    motion    the correlation of mean frame and row number, and the share of the audio that the mean frames go over
    spread    the standard deviation of frames under a row's weights as a share of the audio, mean over rows
    reversed  the motion while the audio's 8 pieces are read from last to first
    """

    place: HeadPlace
    motion: Motion
    spread: float
    reversed: Motion

    @property
    def goes_on(self) -> bool:
        """True if the mean frame under its weights goes forward from row to row, over a quarter of the audio or more.

        Its correlation with the row's number must be 0.9 or more, and the frames under one row's weights spread over
        no more than 0.2 of the audio.
        """
        return self.motion.correlation >= _FOLLOWS and self.motion.travel >= _GOES and self.spread <= _SHARP

    @property
    def follows(self) -> bool:
        """True if its weights go forward through the audio with the rows (`goes_on`),
        by what is heard and not by place.

        By place they would go forward just so in audio whose pieces are reversed: there the correlation of mean frame
        and row must be below 0.5.
        """
        return self.goes_on and self.reversed.correlation < _ALIKE


HEAD_FIELDS = (
    Field("layer", COUNT, "the model's own block number", "place.layer"),
    Field("head", COUNT, "the model's own head number", "place.head"),
    Field("correlation", NUMBER, "of the number of a row with the mean frame of its weights", "motion.correlation"),
    Field("travel", NUMBER, "the share of the audio that the mean frames go over", "motion.travel"),
    Field("spread", NUMBER, "the standard deviation of a row's frames as a share of the audio, mean over rows"),
    Field("reversed_correlation", NUMBER,
          f"the correlation while the audio's {PIECES} pieces are read from last to first", "reversed.correlation"),
    Field("follows", FLAG, "true for an alignment head: it goes on, is sharp, and does not so in the reversed audio"),
)  # fmt: skip


def searched_heads(source: Aligning, prompt: Prompt, rows: Sequence[int], frames: int) -> list[SearchedHead]:
    """All heads of cross-attention to audio: those that follow it first, each group by correlation, largest first.

    The correlation is that of the mean frame under a row's weights with the row's number. Raises InputError for a model
    without cross-attention to the audio.

    rows    indices of the decoder's rows, from the one that predicts the first word on
    frames  how many frames the audio has without the silence that a processor adds
    """
    heard = _motions(source, prompt, rows, frames)
    if not heard:
        raise InputError(f"{source.about['model']} ({source.about['type']}) has no cross-attention to the audio",
                         "word times need an encoder and a decoder, as Whisper has")  # fmt: skip
    pieces = np.array_split(np.arange(frames), min(PIECES, frames))
    order = [*np.concatenate(pieces[::-1]).tolist(), *range(frames, len(prompt.tokens))]
    control = _motions(source, source.with_frames(prompt, order), rows, frames)
    heads = [SearchedHead(place, *of_head, control[place][0]) for place, of_head in heard.items()]
    return sorted(heads, key=lambda head: (not head.follows, -head.motion.correlation))


def following(heads: Sequence[SearchedHead]) -> tuple[tuple[int, int], ...]:
    """The (layer, head), ascending, of those of `heads` that follow the audio: Whisper's `alignment_heads`.

    Of more than 10 the 10 of the largest correlation of a row's mean frame with the row's number.
    """
    found = sorted((head for head in heads if head.follows), key=lambda head: -head.motion.correlation)[:_MOST]
    return tuple(sorted((head.place.layer, head.place.head) for head in found))


def _motions(
    source: Aligning, prompt: Prompt, rows: Sequence[int], frames: int
) -> dict[HeadPlace, tuple[Motion, float]]:
    """The motion and the spread of every head of cross-attention."""
    found: dict[HeadPlace, tuple[Motion, float]] = {}

    def visit(call: Call) -> None:
        if call.place.stream == "cross":
            centres, squares = _moments(call, rows, frames)
            spreads = np.sqrt(np.maximum(squares - centres**2, 0)).mean(axis=1) / frames
            for head, of_head, spread in zip(call.place.heads, centres, spreads.tolist(), strict=True):
                found[HeadPlace(call.place.layer, head, "cross")] = motion(of_head, frames), spread

    source.each([prompt], Selection(), visit)
    return found


def _moments(call: Call, rows: Sequence[int], frames: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean frame and the mean of its square `[h, rows]` of each row, band by band."""
    centres, squares, places = np.zeros((call.h, len(rows))), np.zeros((call.h, len(rows))), RowPlaces(rows, call.n)
    for band in call.bands(rows=rows):
        fit = places.of(band)
        if fit is not None:
            weights = to_numpy(band.weights[:, fit.inside, :]).astype(np.float64)[..., : max(0, frames - band.first)]
            mean = mean_frames(weights)
            centres[band.heads, fit.kept] = mean + band.first
            at, total = np.arange(weights.shape[-1]) + band.first, weights.sum(axis=-1)
            squares[band.heads, fit.kept] = (weights @ at**2) / np.where(total > 0, total, 1)
    return centres, squares
