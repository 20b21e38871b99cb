"""Cells of a heat map as lines, the cursor's cell marked: of a matrix, and of the map of heads."""

from functools import lru_cache

import numpy as np
from rich.segment import Segment
from rich.style import Style

from attn_cli.explore.panes.lines import CURSOR, Line
from attn_cli.explore.pictures import Picture
from attn_cli.explore.window import CellForm
from attn_cli.views.drawing.palette import Ramp
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.segments import MASKED_STEP, cell_style, full_cells, half_cell, half_cells, steps_of

_STEPS = 40  # of colours: finer ones nobody sees in half blocks, and each changes more of what is written
_MARKED = {"truecolor": "#ff4fd8", "256": "color(206)"}  # the cursor's cell, by depth: in no map of colours
_SMALL = 0.01  # a largest number below which all are written with a power of ten


def heat_lines(picture: Picture, form: CellForm, ramp: Ramp, screen: Screen, cursor: tuple[int, int]) -> list[Line]:
    """The lines of cells `[down, across]`; the cell at `cursor` is marked."""
    steps, lines = _cells(picture, form, ramp, screen)
    row, column = cursor
    at = row // 2 if form.halves else row
    if not 0 <= at < len(lines):
        return lines
    before = lines[at]
    if form.number:
        mark = Segment(before[column].text, CURSOR)
    elif form.halves:
        style = Style.parse(_MARKED[screen.depth])
        other = row + 1 if row % 2 == 0 else row - 1
        step = int(steps[other, column]) if other < len(steps) else MASKED_STEP
        mark = Segment(("▀" if row % 2 == 0 else "▄") * form.columns, half_cell(step, step, ramp, screen)[1] + style)
    elif screen.depth in _MARKED:
        mark = Segment(" " * form.columns, Style.parse(f"on {_MARKED[screen.depth]}"))
    else:
        mark = Segment("◆" * form.columns, CURSOR)
    return [*lines[:at], with_cell(before, column, mark), *lines[at + 1 :]]


def with_cell(cells: Line, column: int, cell: Segment) -> Line:
    """The line of cells as wide as `cell`, with it in one column."""
    first, last = column * len(cell.text), (column + 1) * len(cell.text)
    parts = list(Segment.divide(cells, [first, last, max(Segment.get_line_length(cells), last + 1)]))
    return [*parts[0], cell, *parts[2]]


@lru_cache(maxsize=8)
def _cells(picture: Picture, form: CellForm, ramp: Ramp, screen: Screen) -> tuple[np.ndarray, list[Line]]:
    """The steps of all cells, and the lines that show them: nothing of it moves with the cursor."""
    steps = steps_of(ramp.levels(picture.values), steps=_STEPS)
    if form.number:
        rows = zip(picture.values.tolist(), steps.tolist(), strict=True)
        return steps, [
            [
                Segment(cell_text(value, form.columns, ramp), cell_style(step, ramp, screen))
                for value, step in zip(*row, strict=True)
            ]
            for row in rows
        ]
    if not form.halves:
        return steps, [full_cells(row, form.columns, ramp, screen) for row in steps]
    blank = np.full(steps.shape[1], MASKED_STEP)
    below = [steps[top + 1] if top + 1 < len(steps) else blank for top in range(0, len(steps), 2)]
    pairs = zip(steps[::2], below, strict=True)
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
