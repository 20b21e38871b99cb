"""A map of all heads: layers across, heads down, with their numbers around, coloured by a number of each."""

import numpy as np
from rich.segment import Segment

from attn_cli.explore.panes.lines import CURSOR, DIM, PLAIN, Line
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.views.drawing.palette import Ramp
from attn_cli.views.drawing.segments import cell_style, full_cells, half_cells, steps_of

LABEL = 6  # columns before the first head
_NUMBER = 6  # columns of a cell from which it holds a number


def cell_columns(scene: Scene, width: int) -> int:
    """How many columns of the screen each layer has in the map of heads: 1 to 7."""
    count = max(len(scene.recording.layers), 1)
    return min(max((width - LABEL) // count, 1), 7)


def heads_a_line(scene: Scene, room: int) -> int:
    """How many heads share a line of the map: 2 where half blocks can be drawn and lines are too few, else 1."""
    most = max(layer.h for layer in scene.recording.layers)
    return 2 if most > room and scene.screen.halves else 1


def corner(
    scene: Scene, view: Viewpoint, width: int, room: int, columns: int, lines: int, down: int
) -> tuple[int, int]:
    """The first layer and the first line of heads that are drawn, so that the cursor's head is seen."""
    layers = scene.recording.layers
    across, deep = max((width - LABEL) // columns, 1), max(room // lines, 1)
    rows = -(-max(layer.h for layer in layers) // down)
    ends = []
    for place, fits, total in ((view.at, across, len(layers)), (view.head // down, deep, rows)):
        ends.append(min(max(place - fits // 2, 0), max(total - fits, 0)))
    return ends[0], ends[1]


def ruler(scene: Scene, left: int, columns: int, width: int) -> Line:
    """The line with the numbers of layers over their columns, from the layer of index `left` on."""
    layers = scene.recording.layers[left : left + (width - LABEL) // columns]
    names = [str(layer.place.layer) for layer in layers]
    every = -(-(max(map(len, names), default=1) + 1) // columns)
    marks = "".join(name.ljust(columns * every)[: columns * every] for name in names[::every])
    return [Segment("layer".ljust(LABEL) + marks, DIM)]


def row_label(scene: Scene, view: Viewpoint, head: int) -> Segment:
    """The number, in the model, of the head at index `head` of the cursor's layer; blanks where it has no such head."""
    heads = scene.layer(view).place.heads
    return Segment(f"{heads[head]:>4}  " if head < len(heads) else " " * LABEL, DIM)


def number_grid(
    scene: Scene, view: Viewpoint, values: np.ndarray, ramp: Ramp, digits: int, width: int, room: int
) -> list[Line]:
    """The lines of the map, coloured by numbers of all heads `[heads, layers]`, NaN for none, the cursor's marked."""
    columns, down = cell_columns(scene, width), heads_a_line(scene, room - 1)
    steps = steps_of(ramp.levels(values))
    left, top = corner(scene, view, width, room - 1, columns, 1, down)
    across = slice(left, left + (width - LABEL) // columns)
    lines: list[Line] = [ruler(scene, left, columns, width)]
    for row in range(top, min(top + room - 1, -(-len(values) // down))):
        head = row * down
        if down == 2:
            below = steps[head + 1] if head + 1 < len(steps) else steps_of(np.full(values.shape[1], np.nan))
            cells = half_cells(
                np.repeat(steps[head, across], columns), np.repeat(below[across], columns), ramp, scene.screen
            )
        elif columns >= _NUMBER:
            cells = [
                Segment(number_text(value, columns, digits), cell_style(step, ramp, scene.screen))
                for value, step in zip(values[head, across].tolist(), steps[head, across].tolist(), strict=True)
            ]
        else:
            cells = full_cells(steps[head, across], columns, ramp, scene.screen)
        if view.head // down == row:
            upper = down == 2 and view.head % 2 == 0
            mark = "▀" if upper else "▄" if down == 2 else "◆"
            cells = _marked(cells, (view.at - left) * columns, columns if columns < _NUMBER else 0, mark)
            if columns >= _NUMBER:
                cells = _restyled(cells, view.at - left)
        lines.append([row_label(scene, view, head), *cells])
    return lines


def number_text(value: float, columns: int, digits: int) -> str:
    """A number in a cell, with as many of its digits as fit."""
    if value != value:
        return "·".rjust(columns)
    for shown in range(digits, -1, -1):
        text = f"{value:.{shown}f}"
        if len(text) < columns:
            return text.rjust(columns)
    return "~".rjust(columns)


def _marked(cells: Line, start: int, columns: int, mark: str) -> Line:
    if columns <= 0:
        return cells
    parts = list(Segment.divide(cells, [start, start + columns, sum(len(cell.text) for cell in cells)]))
    before, inside, after = (list(part) for part in (*parts, [], [], [])[:3])
    style = inside[0].style or PLAIN if inside else PLAIN
    return [*before, Segment(mark.ljust(columns) if mark == "◆" else mark * columns, style + CURSOR), *after]


def _restyled(cells: Line, at: int) -> Line:
    return [
        Segment(cell.text, (cell.style or PLAIN) + CURSOR) if number == at else cell
        for number, cell in enumerate(cells)
    ]
