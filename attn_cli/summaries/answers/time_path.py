"""The path of a text through audio: from rows to frames, never back, along the largest cross-attention weights."""

from typing import NamedTuple

import numpy as np

_BOTH, _ROW, _FRAME = range(3)  # the steps of a path


class Motion(NamedTuple):
    """How the mean frame of a head's weights on audio moves from row to row of the text.

    correlation  of the mean frame of a row with the row's number; 0 where it stands still
    travel       the share of the frames that a line fitted to the mean frames goes over; negative if backwards
    """

    correlation: float
    travel: float


def motion(centres: np.ndarray, frames: int) -> Motion:
    """How `centres` `[r]`, the mean frames of r rows of text, go on among `frames` frames of audio, as `Motion`.

    >>> motion(np.array([0.0, 10.0, 20.0, 30.0]), 40)
    Motion(correlation=1.0, travel=0.75)
    """
    rows = np.arange(len(centres)) - (len(centres) - 1) / 2
    off = centres - centres.mean()
    length = float(np.sqrt((rows @ rows) * (off @ off)))
    if length <= 1e-9 or not np.isfinite(length):
        return Motion(0.0, 0.0)
    slope = float(rows @ off / (rows @ rows))
    return Motion(float(rows @ off) / length, slope * (len(centres) - 1) / frames)


def mean_frames(weights: np.ndarray) -> np.ndarray:
    """The mean frame number `[...]`, from 0, under attention weights on m frames `[..., m]`; 0 if all are 0."""
    total = weights.sum(axis=-1)
    return np.asarray((weights @ np.arange(weights.shape[-1])) / np.where(total > 0, total, 1))


def aligned(weights: np.ndarray, filter_width: int) -> np.ndarray:
    """Attention weights `[h, r, m]` of h heads, r rows of text and m frames of audio as one matrix `[r, m]`.

    Large numbers say that a row is at a frame. Every frame's weights are standardised over rows, so that a frame to
    which all rows attend counts for none; each is then the median over `filter_width` frames around it, and heads are
    averaged.
    """
    wide = weights.astype(np.float64)
    spread = wide.std(axis=1, keepdims=True)
    standard = (wide - wide.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)
    return np.asarray(_median_filtered(standard, filter_width).mean(axis=0))


def _median_filtered(values: np.ndarray, width: int) -> np.ndarray:
    """The median over `width` numbers around each along the last axis, mirrored at its ends; as it is if too short."""
    side = width // 2
    if values.shape[-1] <= side:
        return values
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(side, side)], mode="reflect")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * side + 1, axis=-1), axis=-1)


def first_frames(matrix: np.ndarray) -> np.ndarray:
    """The frame at which the path with the largest sum through `matrix` `[r, m]`, r rows by m frames,
    enters each row `[r]`.

    The path goes from the first row and frame to the last ones by steps of a row, a frame, or both: dynamic time
    warping. Of equal sums, a step of a frame is taken, which stays in its row. The numbers are finite.

    >>> first_frames(np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 2.0]])).tolist()
    [0, 1, 3]
    """
    rows, frames = matrix.shape
    cost = np.full((rows + 1, frames + 1), np.inf)
    cost[0, 0] = 0
    steps = np.full((rows + 1, frames + 1), _FRAME, np.int8)
    for diagonal in range(2, rows + frames + 1):  # cells of a diagonal are independent of each other
        i = np.arange(max(1, diagonal - frames), min(rows, diagonal - 1) + 1)
        j = diagonal - i
        both, row, frame = cost[i - 1, j - 1], cost[i - 1, j], cost[i, j - 1]
        step = np.where((both < row) & (both < frame), _BOTH, np.where((row < both) & (row < frame), _ROW, _FRAME))
        steps[i, j] = step
        cost[i, j] = np.choose(step, (both, row, frame)) - matrix[i - 1, j - 1]
    entered, (i, j) = np.zeros(rows, np.int64), (rows, frames)
    while i > 0:
        entered[i - 1] = j - 1
        step = steps[i, j]
        i, j = i - (step != _FRAME), j - (step != _ROW)
    return entered
