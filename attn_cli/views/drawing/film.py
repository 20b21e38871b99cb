"""Cells over a picture: the picture in grey, and on it each cell in its colour, seen through."""

import numpy as np

from attn_cli.views.drawing.palette import Ramp, color_at

OPACITY = 0.55  # of cells over a picture


def color_of(level: float, ramp: Ramp) -> tuple[int, int, int]:
    """The red, green and blue, 0 to 255, of a level from 0 to 1 of the colour scale: as on paper."""
    colors = ramp.colors if ramp.diverging else "crameri:batlowW"
    place = level if ramp.diverging else 1 - level
    color = color_at(round(place * 255), colors, "truecolor").get_truecolor()
    return color.red, color.green, color.blue


def cells_as_pixels(levels: np.ndarray, ramp: Ramp) -> np.ndarray:
    """A coloured pixel `[n, m, 3]` for each cell; `levels` `[n, m]` are on the colour scale, 0 to 1; NaN is black."""
    table = np.array([color_of(level, ramp) for level in np.linspace(0, 1, 256)], dtype=np.uint8)
    pixels: np.ndarray = table[np.rint(np.nan_to_num(levels) * 255).astype(int)]
    return np.where(np.isnan(levels)[..., None], np.uint8(0), pixels)
