"""Levels and colours of any number: beyond a ramp, below 0, NaN, infinite, masked, and as large as floats are."""

import numpy as np
import pytest
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from attn_cli.views.drawing.cells import joined
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.palette import Ramp, background, color_at, ramp_for, shade
from attn_cli.views.drawing.screen import Screen
from tests.program import attn

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


@pytest.mark.parametrize("depth", ["none", "16", "256", "truecolor"])
@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("n", [8, 30, 60])
def test_a_cell_of_0_and_a_masked_one(n: int, ascii_only: bool, depth: str) -> None:
    values = np.eye(n) + np.triu(np.full((n, n), -np.inf), 1)
    labels = [f"w{at}" for at in range(n)]
    screen = Screen(90, depth, ascii_only)
    lines = HeatMap(values, "weights", "weights", labels, labels, screen).lines()
    row = next(line for line in lines if line[-1].text.strip() == f"{n // 2} w{n // 2}")
    cells = [(segment.text, segment.style) for segment in row]
    zero, masked = cells[n // 4], cells[n - 1]
    assert zero != masked
    assert masked[0].strip() == ""


@pytest.mark.parametrize("mask", ["causal", "window"])
def test_keys_outside_a_window_are_blank(mask: str) -> None:
    masks = ["--mask", "causal", *(["--mask", "window:3"] if mask == "window" else [])]
    run = attn("compute", "the cat sat on the mat", *masks, env={"NO_COLOR": "1", "COLUMNS": "80"})
    lines = run.lines
    start = next(at for at, line in enumerate(lines) if "weights = softmax ·" in line)
    (row,) = [line for line in lines[start : start + 9] if line.endswith("4 the")]
    first = row[:8].strip()
    assert (first == "") == (mask == "window")


STYLES = [None, Style(bold=True), Style(bold=True), Style(dim=True)]


def test_runs_of_one_style_are_joined_as_by_rich() -> None:
    draws = np.random.default_rng(7).integers(0, len(STYLES), size=300)
    line = [Segment(str(at), STYLES[style]) for at, style in enumerate(draws)]
    assert list(joined(line)) == list(Segment.simplify(line))


def test_of_a_block_the_number_farthest_from_0_is_drawn(tmp_path: object) -> None:
    values = np.zeros((100, 200))
    values[:2], values[50, 7], values[50, 8] = [[0.25], [-4.5]], 3.5, -4.0
    np.save(f"{tmp_path}/v.npy", values)
    np.save(f"{tmp_path}/q.npy", np.eye(100) * 1000)  # every query takes its own value
    run = attn("compute", "--q", f"{tmp_path}/q.npy", "--v", f"{tmp_path}/v.npy", env={"COLUMNS": "80"})
    output = run.text[run.text.index("output") :].split("\n\n")[0].splitlines()
    assert output[0] == "output · 100 x 200 · cells -4.5 to 3.5 · farthest from 0 over 3 x 4"
    body = [line for line in output[3:] if "-4.5" not in line]
    assert len(body) == 34
    assert all(len(set(line[:50])) == 1 for line in body[:2])  # one level in the whole line
    spike = next(line for line in body if line.endswith(" 48-50"))
    assert spike[:4].strip() == "▓%"  # 3.5 in the cell of columns 4 to 7, -4 in the next
    assert not spike[4:50].strip()
