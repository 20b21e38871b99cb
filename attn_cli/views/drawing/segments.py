"""Cells of a heat map as segments: levels in steps, one cached style for each, and runs of equal cells as one."""

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import groupby

import numpy as np
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from attn_cli.views.drawing.palette import Ramp, background, color_at, foreground, shade
from attn_cli.views.drawing.screen import Screen

STEPS = 64  # that levels are rounded to: so that cells which look equal are equal
MASKED_STEP = STEPS  # the step of a cell without a level
_FEW = 32
_PLAIN = Style.null()


def blocks_of(pick: np.ufunc, cells: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    """What `pick`, such as `np.maximum`, makes of every block of (rows, columns) of cells `[n, m]`."""
    for axis, step in enumerate(block):
        if step > 1:
            cells = pick.reduceat(cells, np.arange(0, cells.shape[axis], step), axis=axis)
    return cells


def steps_of(levels: np.ndarray, *, steps: int = STEPS) -> np.ndarray:
    """Levels from 0 to 1 of the colour scale, in any shape, as whole numbers 0 to 63, of which `steps` are used."""
    masked = np.isnan(levels)
    rounded = np.rint(np.where(masked, 0, levels) * (steps - 1)) * ((STEPS - 1) / (steps - 1))
    return np.where(masked, MASKED_STEP, np.rint(rounded)).astype(np.int64)


def full_cells(steps: np.ndarray, columns: int, ramp: Ramp, screen: Screen) -> list[Segment]:
    """One line of cells `[m]`, each `columns` wide: coloured, or shaded where there are no colours to rely on."""
    return [
        Segment(_mark(step, ramp, screen) * (columns * count), _full_style(step, ramp, screen))
        for step, count in _runs(steps)
    ]


def half_cells(upper: np.ndarray, lower: np.ndarray, columns: int, ramp: Ramp, screen: Screen) -> list[Segment]:
    """Two lines of cells `[m]` in one line of half blocks; masked cells are the screen's own background."""
    colors, depth = ramp.colors, screen.depth
    return [_half_segment(pair, columns * count, colors, depth) for pair, count in _runs(upper * (STEPS + 1) + lower)]


@lru_cache(maxsize=2**15)
def _half_segment(pair: int, count: int, colors: str, depth: str) -> Segment:
    glyph, style = half_cell(*divmod(pair, STEPS + 1), colors, depth)
    return Segment(glyph * count, style)


def cell_style(step: int, ramp: Ramp, screen: Screen) -> Style:
    """The style of text on a cell at `step` of the scale of colours, 0 to 63; 64 for a masked one."""
    return background(np.nan if step == MASKED_STEP else step / (STEPS - 1), ramp, screen.depth)


@cache
def half_cell(upper: int, lower: int, colors: str, depth: str) -> tuple[str, Style]:
    """The character and style of a place of the screen that shows two cells, one above the other."""
    if upper == lower:
        return " ", _PLAIN if upper == MASKED_STEP else Style(bgcolor=_color(upper, colors, depth))
    if upper == MASKED_STEP:
        return "▄", Style(color=_color(lower, colors, depth))
    if lower == MASKED_STEP:
        return "▀", Style(color=_color(upper, colors, depth))
    return "▀", Style(color=_color(upper, colors, depth), bgcolor=_color(lower, colors, depth))


def _color(step: int, colors: str, depth: str) -> Color:
    return color_at(round(step * 255 / (STEPS - 1)), colors, depth)


def _full_style(step: int, ramp: Ramp, screen: Screen) -> Style:
    level = np.nan if step == MASKED_STEP else step / (STEPS - 1)
    return (background if screen.depth in ("truecolor", "256") else foreground)(level, ramp, screen.depth)


def _mark(step: int, ramp: Ramp, screen: Screen) -> str:
    if screen.depth in ("truecolor", "256") or (step == MASKED_STEP and not ramp.diverging):
        return " "
    if step == MASKED_STEP:  # a score of 0 is blank
        return shade(np.nan, ramp)
    return shade(step / (STEPS - 1), ramp)


def _runs(steps: np.ndarray) -> Sequence[tuple[int, int]]:
    if len(steps) <= _FEW:  # then NumPy's calls cost more than the numbers
        return [(step, len(list(run))) for step, run in groupby(steps.tolist())]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(steps)) + 1])
    counts = np.diff(np.concatenate([starts, [len(steps)]]))
    return list(zip(steps[starts].tolist(), counts.tolist(), strict=True))
