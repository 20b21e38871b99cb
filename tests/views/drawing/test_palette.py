"""Levels and colours of any number: beyond a ramp, below 0, NaN, infinite, and as large as floats are."""

import numpy as np
import pytest
from rich.color import Color

from attn_cli.views.drawing.palette import Ramp, background, color_at, ramp_for, shade

DEPTHS = ["truecolor", "256", "16", "none"]
BEYOND = [-1e300, -1.05, -0.01, 1.01, 1.05, 9.0, 1e300, float("inf"), float("-inf")]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("diverging", [False, True])
@pytest.mark.parametrize("level", BEYOND)
def test_a_level_beyond_the_ramp_has_the_colour_of_its_end(level: float, diverging: bool, depth: str) -> None:
    ramp = Ramp(-1.0 if diverging else 0.0, 1.0, diverging)
    end = 1.0 if level > 0 else 0.0
    assert background(level, ramp, depth) == background(end, ramp, depth)
    assert shade(level, ramp) == shade(end, ramp)


@pytest.mark.parametrize("scale", ["linear", "sqrt", "log", "row"])
@pytest.mark.parametrize("kind", ["weights", "scores"])
def test_levels_of_any_numbers_are_between_0_and_1(kind: str, scale: str) -> None:
    top = np.finfo(np.float64).max
    values = np.array([[top, -top, 0.0, 1.0], [np.inf, -np.inf, np.nan, -top / 2]])
    levels = ramp_for(values, kind, scale).levels(values)
    assert np.isnan(levels).tolist() == [[False] * 4, [False, True, True, False]]
    assert levels[0, 0] == levels[1, 0] == 1
    assert levels[0, 1] == 0
    assert np.nanmin(levels) >= 0
    assert levels[0, 2] == (0.5 if kind == "scores" else 0)


def lightness(color: Color) -> float:
    """Luminance of a colour as a terminal or a page shows it, 0 to 1."""
    parts = [part / 255 for part in color.get_truecolor()]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("depth", ["truecolor", "256"])
@pytest.mark.parametrize("light", [False, True])
def test_0_is_told_from_a_masked_cell_and_sizes_by_lightness(light: bool, depth: str) -> None:
    """A masked cell is the screen's own black or white; what is farther from 0 is farther from that."""
    ramp = Ramp(-1.0, 1.0, diverging=True, light=light)
    colors = [color_at(index, ramp.colors, depth) for index in range(256)]
    screen = 1.0 if light else 0.0
    from_screen = [(max(lightness(c), screen) + 0.05) / (min(lightness(c), screen) + 0.05) for c in colors]
    assert min(from_screen) > 1.9  # of contrast
    for side in (from_screen[128:], from_screen[127::-1]):
        step = 8  # of 256 colours, some stand for several
        assert all(far >= near - 0.35 for near, far in zip(side[::step], side[step::step], strict=False))
        assert side[-1] > 2 * side[0]
    assert len({color.get_truecolor() for color in colors[::32]}) == 8
