"""Levels and colours of any number: beyond a ramp, below 0, NaN, infinite, and as large as floats are."""

import numpy as np
import pytest

from attn_cli.views.drawing.palette import Ramp, background, ramp_for, shade
from attn_cli.views.drawing.screen import DEPTHS

BEYOND = [-1e300, -1.05, -0.01, 1.01, 1.05, 9.0, 1e300, float("inf"), float("-inf")]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("diverging", [False, True])
@pytest.mark.parametrize("level", BEYOND)
def test_a_level_beyond_the_ramp_has_the_colour_of_its_end(level: float, diverging: bool, depth: str) -> None:
    ramp = Ramp(-1.0 if diverging else 0.0, 1.0, diverging)
    end = 1.0 if level > 0 else 0.0
    assert background(level, ramp, depth) == background(end, ramp, depth)
    assert shade(level, ramp, ascii_only=True) == shade(end, ramp, ascii_only=True)


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
