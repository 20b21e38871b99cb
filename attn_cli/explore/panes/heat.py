"""Cells of a heat map as lines, the cursor's cell marked: of a matrix, and of the map of heads."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from rich.segment import Segment
from rich.style import Style

from attn_cli.explore.panes.lines import CURSOR, Line
from attn_cli.explore.pictures import Picture
from attn_cli.explore.window import CellForm
from attn_cli.views.drawing.cells import BOLD
from attn_cli.views.drawing.palette import Ramp
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.segments import MASKED_STEP, cell_style, full_cells, half_cells, steps_of

Place = tuple[int, int]  # of a drawn cell: down, across
_STEPS = 40  # of colours: finer ones nobody sees in half blocks, and each changes more of what is written
_MARKED = {"truecolor": "#ff4fd8", "256": "color(206)"}  # the cursor's cell, by depth: in no map of colours
DOT, DOT_COLOR = "•", "color(208)"  # a mark, and the colour in its place where half a cell has no room for it
_WITH_NUMBER = 5  # columns of a cell that has a mark and a number
_SMALL = 0.01  # a largest number below which all are written with a power of ten


def heat_lines(
    picture: Picture, form: CellForm, ramp: Ramp, screen: Screen, cursor: Place, marks: Mapping[Place, str]
) -> list[Line]:
    """The lines of cells `[down, across]`; the cell at `cursor` is marked, and others have `marks`, a letter each."""
    steps, kept = _cells(picture, form, ramp, screen)
    lines, size = list(kept), form.columns
    letters = {place: mark for place, mark in marks.items() if mark == DOT or not form.halves}
    colors = dict.fromkeys(letters, DOT_COLOR) | {cursor: _MARKED.get(screen.depth, "")}
    for row, column in colors:
        if not (0 <= row < len(steps) and 0 <= column < steps.shape[1]):
            continue
        at, style = row // 2 if form.halves else row, cell_style(int(steps[row, column]), ramp, screen)
        if form.halves:
            below = [*steps[:, column].tolist(), MASKED_STEP]
            places = (2 * at, 2 * at + 1)
            upper, lower = (
                colors.get((each, column)) or cell_style(below[each], ramp, screen).bgcolor for each in places
            )
            half = Style(color=lower) if upper is None else Style(color=upper, bgcolor=lower)
            mark = Segment(("▄" if upper is None else "▀") * size, half)
        elif (row, column) != cursor:
            number = cell_text(picture.values[row, column], size - 2, ramp) if size >= _WITH_NUMBER else ""
            mark = Segment(f"{letters[row, column]} {number.strip()}".ljust(size)[:size], style + BOLD)
        elif form.number:
            mark = Segment(kept[row][column].text, CURSOR)
        elif screen.depth in _MARKED:
            mark = Segment(" " * size, Style(bgcolor=_MARKED[screen.depth]))
        else:
            mark = Segment("◆" * size, CURSOR)
        before, _, after = Segment.divide(lines[at], [column * size, (column + 1) * size, size * steps.shape[1] + 1])
        lines[at] = [*before, mark, *after]
    return lines


@lru_cache(maxsize=8)
def _cells(picture: Picture, form: CellForm, ramp: Ramp, screen: Screen) -> tuple[np.ndarray, list[Line]]:
    """The steps of all cells, and the lines that show them: nothing of it moves with the cursor."""
    steps = steps_of(ramp.levels(picture.values), steps=_STEPS)
    if form.number:
        texts = [[cell_text(value, form.columns, ramp) for value in row] for row in picture.values.tolist()]
        styles = [[cell_style(step, ramp, screen) for step in row] for row in steps.tolist()]
        return steps, [list(map(Segment, *row)) for row in zip(texts, styles, strict=True)]
    if not form.halves:
        return steps, [full_cells(row, form.columns, ramp, screen) for row in steps]
    even = np.pad(steps, ((0, len(steps) % 2), (0, 0)), constant_values=MASKED_STEP)
    pairs = zip(even[::2], even[1::2], strict=True)
    return steps, [half_cells(upper, lower, form.columns, ramp, screen) for upper, lower in pairs]


def cell_text(value: float, columns: int, ramp: Ramp) -> str:
    """A number in a cell of so many columns, with as many digits as fit: 0.8658, 0.87, .87, 87 hundredths, or 8e-5."""
    if value != value:
        return " " * columns
    if 0 < max(-ramp.low, ramp.high) < _SMALL and value:
        text = f"{value:.0e}".replace("e-0", "e-")
    elif ramp.low < 0 or ramp.high > 1.001:  # a weight may be 1 + 1e-7
        text = next((text for digits in (2, 1, 0) if len(text := f"{value:.{digits}f}") < columns), f"{value:.0e}")
    elif columns > 4:
        text = f"{value:.{columns - 3}f}"
    else:
        text = "1." if round(100 * value) >= 100 else f".{round(100 * value):02}"[4 - columns :]
    return text.rjust(columns) if len(text) <= columns else "~".rjust(columns)
