"""From numbers to cell styles: one ramp for every colour depth, and glyphs where there is no colour to rely on."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from rich.color import Color, ColorSystem
from rich.style import Style

SCALES = ("linear", "sqrt", "log", "row")
SHADES = " ░▒▓█"
NEGATIVE_SHADES = " ,-=%"
_LEVELS = 256
_VIRIDIS_256 = (53, 54, 24, 60, 30, 36, 71, 77, 113, 148, 184, 226)  # the nearest, of ever rising lightness
_OWN = {  # the ends of berlin and vik (Crameri 2018), grey at 0: masked cells are the screen's colour, on paper grey
    "about 0, dark": ((158, 176, 255), (72, 138, 186), (88, 88, 88), (190, 96, 66), (255, 172, 172)),
    "about 0, light": ((0, 18, 97), (58, 110, 160), (176, 176, 176), (178, 92, 50), (89, 0, 8)),
    "about 0, paper": ((0, 18, 97), (58, 110, 160), (255, 255, 255), (178, 92, 50), (89, 0, 8)),
    "paper": tuple(
        tuple(bytes.fromhex(stop))
        for stop in ["ffffff", "e3e9f6", "bfd3ec", "8fb8de", "5b96cb", "3872b4", "2a4f96", "23306f", "180d3f"]
    ),
}
_FAINTEST = 0.28  # how much of a picture is seen where no weight is
_DARK, _LIGHT = Color.from_rgb(0, 0, 0), Color.from_rgb(255, 255, 255)
_RED, _GREEN, _YELLOW, _BLUE, _CYAN = 1, 2, 3, 4, 6
_SIXTEEN = (None, _BLUE, _CYAN, _GREEN, _YELLOW)
_SIXTEEN_DIVERGING = (_BLUE, _CYAN, None, _YELLOW, _RED)


@dataclass(frozen=True)
class Ramp:
    """Gives a value between `low` and `high` a level between 0 and 1, and that a colour.

    A diverging ramp is symmetric: level 0.5 is 0 and low = -high. `scale` bends the level: "sqrt" and "log" lift small
    weights, "row" gives every row a scale of its own.
    """

    low: float
    high: float
    diverging: bool = False
    scale: str = "linear"
    light: bool = False

    @property
    def colors(self) -> str:
        """The name of the colour map, for light or dark screens; on a diverging scale 0 is grey."""
        if self.diverging:
            return "about 0, light" if self.light else "about 0, dark"
        return "paper" if self.light else "bids:viridis"

    def levels(self, values: np.ndarray) -> np.ndarray:
        """The level of each value on the colour scale `[n, m]`, 0 to 1, 1 for +inf; NaN for NaN and -inf (masked)."""
        finite = np.isfinite(values)
        safe = np.where(finite, values, 0.0)
        if self.scale == "row" and not self.diverging:
            high = np.max(np.where(finite, values, -np.inf), axis=1, keepdims=True, initial=-np.inf)
            spread = np.where(np.isfinite(high), high, 1.0) - min(self.low, 0.0)
            levels = safe / np.where(spread > 0, spread, 1.0)
        else:
            reach = self.high / 2 - self.low / 2  # halves: the whole of two large numbers would be inf
            levels = (
                (safe / 2 - self.low / 2) / reach if reach > 0 else np.full_like(safe, 0.5 if self.diverging else 1.0)
            )
        levels = np.clip(levels, 0.0, 1.0)
        if not self.diverging:
            if self.scale == "sqrt":
                levels = np.sqrt(levels)
            elif self.scale == "log":  # three decades: a thousandth of the maximum is the bottom
                levels = np.clip(1 + np.log10(np.maximum(levels, 1e-3)) / 3, 0.0, 1.0)
        return np.where(finite, levels, np.where(np.isposinf(values), 1.0, np.nan))


def ramp_for(values: np.ndarray, kind: str, scale: str, *, light: bool = False) -> Ramp:
    """The ramp of values: for "weights" from 0 to the largest, "alike" from the least on, else symmetric about 0."""
    finite = values[np.isfinite(values)]
    if kind in ("weights", "alike"):
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        return Ramp(low if kind == "alike" else 0.0, high, scale=scale, light=light)
    reach = float(np.abs(finite).max()) if finite.size else 1.0
    return Ramp(-reach, reach, diverging=True, light=light)


def background(level: float, ramp: Ramp, depth: str) -> Style:
    """The style of a cell at `level` (NaN for masked) on a screen of `depth`: "truecolor", "256", "16" or "none"."""
    if depth == "none" or level != level:
        return Style.null()
    if depth == "16":
        number = _sixteen(level, ramp)
        text = _LIGHT if number in (_BLUE, _RED) else _DARK
        return Style.null() if number is None else Style(color=text, bgcolor=Color.from_ansi(number))
    return _style(round(_within(level) * (_LEVELS - 1)), ramp.colors, depth)


def foreground(level: float, ramp: Ramp, depth: str) -> Style:
    """The style of a character that stands for a level, 0 to 1: coloured only with `depth` "16", for 16 colours."""
    number = None if level != level or depth != "16" else _sixteen(level, ramp)
    return Style.null() if number is None else Style(color=Color.from_ansi(number))


def _sixteen(level: float, ramp: Ramp) -> int | None:
    colors = _SIXTEEN_DIVERGING if ramp.diverging else _SIXTEEN
    return colors[min(int(_within(level) * len(colors)), len(colors) - 1)]


def _within(level: float) -> float:
    return min(max(level, 0.0), 1.0)


def shade(level: float, ramp: Ramp) -> str:
    """One character as dark as a level from 0 to 1, for screens without colours; "·" for NaN, which is masked."""
    if level != level:
        return "·"
    level, glyphs = _within(level), SHADES
    if ramp.diverging:
        level, glyphs = abs(level - 0.5) * 2, NEGATIVE_SHADES if level < 0.5 else SHADES
    return glyphs[min(int(level * len(glyphs)), len(glyphs) - 1)]


@cache
def color_at(index: int, colors: str, depth: str) -> Color:
    """Colour `index`, 0 to 255, of a colour map; with `depth` "256" the nearest that a terminal has."""
    if depth == "256" and colors == "bids:viridis":
        return Color.from_ansi(_VIRIDIS_256[index * len(_VIRIDIS_256) // _LEVELS])
    red, green, blue = _table(colors)[index]
    color = Color.from_rgb(red, green, blue)
    return color if depth == "truecolor" else color.downgrade(ColorSystem.EIGHT_BIT)


@cache
def _style(index: int, colors: str, depth: str) -> Style:
    color = color_at(index, colors, depth)
    return Style(color=_DARK if is_light(color.get_truecolor()) else _LIGHT, bgcolor=color)


def is_light(color: Sequence[int]) -> bool:
    """True where black is read better than white on a colour, 0 to 255 (WCAG's luminance)."""
    parts = [part / 255 for part in color]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.179


@cache
def _table(name: str) -> list[tuple[int, int, int]]:
    """256 colours of a published map, such as viridis (van der Walt, Smith 2015), or of one about 0."""
    from cmap import Colormap  # imported here: takes 40 ms, and plain text never needs it

    colors = np.round(np.asarray(Colormap(_OWN.get(name, name)).lut(_LEVELS))[:, :3] * 255).astype(int)
    return [(int(r), int(g), int(b)) for r, g, b in colors]


def lit(picture: np.ndarray, levels: np.ndarray, scale: str) -> np.ndarray:
    """A picture `[height, width, 4]` in its own colours where a scale's levels `[n, m]` are 1, a faint grey where 0."""
    places = [np.arange(size) * cells // size for size, cells in zip(picture.shape, levels.shape, strict=False)]
    bend = 1.0 if scale in ("sqrt", "log") else 0.6  # so that a little is seen
    light = np.nan_to_num(levels)[np.ix_(*places)][..., None] ** bend
    rest = _FAINTEST * (1 - light)
    colors = (light * picture + rest * picture.mean(axis=2, keepdims=True)) / (light + rest)
    return np.rint(np.concatenate([colors, 255 * (light + rest)], axis=2)).astype(np.uint8)
