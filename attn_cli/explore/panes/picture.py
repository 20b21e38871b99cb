"""The image that was read, beside the text, under the weights of its patches: two pixels to a cell."""

import numpy as np
from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style

from attn_cli.explore.panes.lines import Line
from attn_cli.explore.scene import Scene
from attn_cli.explore.shown_picture import ShownPicture
from attn_cli.views.drawing.film import grey
from attn_cli.views.drawing.palette import Ramp, color_at

_FILM = (0.1, 0.75)  # opacity of the colours of least and of most weight


def picture_lines(scene: Scene, shown: ShownPicture, row: np.ndarray, ramp: Ramp) -> list[Line]:
    """The lines of an image in half blocks, with the weight of each token, `row`, over its patch."""
    pixels = _covered(shown, row, ramp, 2 * shown.lines, shown.columns)
    return [_line(above, below, scene.screen.depth) for above, below in zip(pixels[::2], pixels[1::2], strict=True)]


def patch_at(shown: ShownPicture, x: int, y: int) -> int | None:
    """The index of the token whose patch is at column x and line y of the image, from 0; None beside it."""
    if not (0 <= x < shown.columns and 0 <= y < shown.lines):
        return None
    rows, columns = shown.grid.cells.shape
    return int(shown.grid.cells[int((y + 0.5) / shown.lines * rows), int((x + 0.5) / shown.columns * columns)])


def _covered(shown: ShownPicture, row: np.ndarray, ramp: Ramp, high: int, wide: int) -> np.ndarray:
    """The pixels `[high, wide, 3]` in grey, each under the colour of its patch."""
    part, (rows, columns) = shown.pixels, shown.grid.cells.shape
    down, across = ((np.arange(size) + 0.5) / size for size in (high, wide))
    lights = grey(part[(down * part.shape[0]).astype(int)[:, None], (across * part.shape[1]).astype(int)])
    weights = row[shown.grid.cells]
    most = float(np.nanmax(np.abs(weights), initial=0.0)) or 1.0
    own = Ramp(-most, most, diverging=True, light=ramp.light) if ramp.diverging else Ramp(0.0, most, scale=ramp.scale)
    levels = np.nan_to_num(own.levels(weights), nan=0.5 if own.diverging else 0.0)
    strength = np.abs(levels - 0.5) * 2 if own.diverging else levels
    colours = np.array([color_at(index, own.colors, "truecolor").get_truecolor() for index in range(256)])
    film = colours[np.rint(levels * 255).astype(int)]
    opacity = (_FILM[0] + (_FILM[1] - _FILM[0]) * strength)[..., None]
    at = (down * rows).astype(int)[:, None], (across * columns).astype(int)
    return np.rint(lights * (1 - opacity[at]) + film[at] * opacity[at]).astype(int)


def _line(above: np.ndarray, below: np.ndarray, depth: str) -> Line:
    """Two rows of pixels as one line of half blocks; like ones beside each other are one segment."""
    segments: Line = []
    for upper, lower in zip(above.tolist(), below.tolist(), strict=True):
        style = Style(color=_color(upper, depth), bgcolor=_color(lower, depth))
        if segments and segments[-1].style == style:
            segments[-1] = Segment(segments[-1].text + "▀", style)
        else:
            segments.append(Segment("▀", style))
    return segments


def _color(pixel: list[int], depth: str) -> Color:
    color = Color.from_rgb(*pixel)
    return color if depth == "truecolor" else color.downgrade(ColorSystem.EIGHT_BIT)
