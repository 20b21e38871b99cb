"""Pictures in sixels: six rows of pixels at a time, a run of characters for each colour in them (DEC STD 070)."""

import re
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np

MOST_COLORS = 256
_ROWS = 6
_ZERO = 63  # "?": the six pixels are left as they are
_RUN = re.compile(rb"([?-~])\1{3,}")
_SAMPLE = 96  # pixels a side of the smaller picture that colours are chosen for
_SMOOTH = 64  # colours, from which on no dots are needed to mix them


def can_be_made() -> bool:
    """True if sixel pictures can be made: Pillow, which chooses their colours, is installed."""
    return find_spec("PIL") is not None


def sixel(pixels: np.ndarray, colors: int = MOST_COLORS) -> str:
    """A picture `[h, w, 3]` as the escape code that draws it, in so many colours at most."""
    places, palette = _in_few_colors(pixels, min(colors, MOST_COLORS))
    height, width = places.shape
    registers = "".join(
        f"#{at};2;{red};{green};{blue}" for at, (red, green, blue) in enumerate(np.rint(palette / 2.55).astype(int))
    )
    return f'\x1bP0;1q"1;1;{width};{height}{registers}{"-".join(_bands(places, len(palette)))}\x1b\\'


def _in_few_colors(pixels: np.ndarray, colors: int) -> tuple[np.ndarray, np.ndarray]:
    """The colour of every pixel as a place `[h, w]` in a table `[colors, 3]`; few are mixed by dots."""
    from PIL import Image  # here: without a picture nothing of it is needed

    image = Image.fromarray(pixels)
    sample = image.resize((min(_SAMPLE, image.width), min(_SAMPLE, image.height)))
    table = sample.quantize(colors, Image.Quantize.MEDIANCUT)
    dither = Image.Dither.NONE if colors >= _SMOOTH else Image.Dither.FLOYDSTEINBERG
    chosen = image.quantize(palette=table, dither=dither)
    places = np.asarray(chosen)
    palette = np.array(chosen.getpalette(), np.uint8).reshape(-1, 3)
    return places, palette[: int(places.max()) + 1]


def _bands(places: np.ndarray, colors: int) -> Iterator[str]:
    """Six rows of pixels at a time: every colour in them, from the left edge to its last pixel."""
    height, width = places.shape
    across = np.arange(width)
    for top in range(0, height, _ROWS):
        marks = np.zeros((colors, width), np.uint8)
        for row, line in enumerate(places[top : top + _ROWS]):
            marks[line, across] |= 1 << row
        there = np.flatnonzero(marks.any(axis=1))
        lines = [f"#{color}".encode() + (marks[color] + _ZERO).tobytes().rstrip(b"?") for color in there]
        yield _RUN.sub(_counted, b"$".join(lines)).decode()


def _counted(run: re.Match[bytes]) -> bytes:
    """A run of one character as its length and the character."""
    return b"!%d%s" % (len(run[0]), run[1])
