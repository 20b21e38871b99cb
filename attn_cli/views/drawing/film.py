"""Cells over a picture: the picture in grey, and on it each cell in its colour, seen through."""

import numpy as np

from attn_cli.views.drawing.palette import Ramp, color_at

OPACITY = 0.55  # of cells over a picture
_LUMA = np.array([0.299, 0.587, 0.114])  # of red, green and blue (ITU-R BT.601)


def color_of(level: float, ramp: Ramp) -> tuple[int, int, int]:
    """The red, green and blue, 0 to 255, of a level from 0 to 1 of the colour scale: as on paper.

    White for no weight, grey for a score of 0.
    """
    colors = ramp.colors if ramp.diverging else "crameri:batlowW"
    place = level if ramp.diverging else 1 - level
    color = color_at(round(place * 255), colors, "truecolor").get_truecolor()
    return color.red, color.green, color.blue


def grey(pixels: np.ndarray) -> np.ndarray:
    """A picture `[h, w, 3]` in grey, uint8: the same luma in all three channels."""
    luma = np.rint(pixels @ _LUMA).astype(np.uint8)
    return np.dstack([luma, luma, luma])


def cells_as_pixels(levels: np.ndarray, ramp: Ramp) -> np.ndarray:
    """A coloured pixel `[n, m, 3]` for each cell; `levels` `[n, m]` are on the colour scale, 0 to 1; NaN is black."""
    table = np.array([color_of(level, ramp) for level in np.linspace(0, 1, 256)], dtype=np.uint8)
    pixels: np.ndarray = table[np.rint(np.nan_to_num(levels) * 255).astype(int)]
    return np.where(np.isnan(levels)[..., None], np.uint8(0), pixels)


def over_picture(below: np.ndarray, levels: np.ndarray, ramp: Ramp, height: int, width: int) -> np.ndarray:
    """A grey picture, scaled to `[height, width, 3]`, with the colours of weights over it, half seen through.

    below   its pixels `[h, w, 3]`, of any size
    levels  of the weights on the colour scale, 0 to 1 `[n, m]`, in equal rows and columns over it; NaN for no colour
    """
    n, m = levels.shape
    at = (np.arange(height) * n // height)[:, None], np.arange(width) * m // width
    opacity = np.where(np.isnan(levels), 0.0, OPACITY)[at][..., None]
    mixed = grey(resized(below, height, width)) * (1 - opacity) + cells_as_pixels(levels, ramp)[at] * opacity
    return np.rint(mixed).astype(np.uint8)


def resized(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """A picture in another size `[height, width, 3]`: where it shrinks, a pixel is the mean of what falls on it.

    >>> resized(np.array([[[0, 0, 0], [90, 0, 0]]], np.uint8), 2, 1).tolist()
    [[[45, 0, 0]], [[45, 0, 0]]]
    """
    for axis, size in enumerate((height, width)):
        now = pixels.shape[axis]
        starts = np.arange(size) * now // size
        if size < now:
            counts = np.diff(starts, append=now).reshape([-1 if each == axis else 1 for each in range(3)])
            pixels = np.add.reduceat(pixels.astype(float), starts, axis=axis) / counts
        else:
            pixels = np.take(pixels, starts, axis=axis)
    return np.rint(pixels).astype(np.uint8)
