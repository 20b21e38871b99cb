"""One head's matrix: a window of it as a heat map, the cursor marked in the map, above it and beside it."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from attn_cli.explore.answers import Picture
from attn_cli.explore.grids import Grid
from attn_cli.explore.panes.lines import BOLD, CURSOR, DIM, MARKED, PLAIN, Line, line, padded, parts_line
from attn_cli.explore.panes.names import against_name, cell_line, head_name, short_label
from attn_cli.explore.regions import Region
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.explore.window import CellForm, MatrixWindow
from attn_cli.prompt import Token
from attn_cli.views.drawing.cells import fit
from attn_cli.views.drawing.labels import text_with_mark
from attn_cli.views.drawing.palette import Ramp, ramp_for
from attn_cli.views.drawing.screen import Screen, label_columns
from attn_cli.views.drawing.segments import MASKED_STEP, cell_style, full_cells, half_cell, half_cells, steps_of

_STEPS = 40  # of colours: finer ones nobody sees in half blocks, and each changes more of what is written


def draw(scene: Scene, view: Viewpoint, region: Region) -> list[Line]:
    """The lines of the matrix; of two while another head is compared: side by side, or their difference."""
    status = cell_line(scene, view, region.width)
    if view.against is None or view.difference:
        return [*_half(scene, view, region.width, region.height - 1), status]
    width = scene.matrix_width(view)
    left = _half(scene, view, width, region.height - 1)
    right = _other_half(scene, view, width, region.height - 1)
    lines = [[*padded(a, width), Segment("  ", PLAIN), *b] for a, b in zip(left, right, strict=True)]
    return [*lines, status]


def pointed(scene: Scene, view: Viewpoint, region: Region, x: int, y: int) -> Viewpoint | None:
    """The viewpoint on the cell at column x and line y of the pane, from 0; None where there is none."""
    cell = _cell_at(scene, view, x, y)
    return None if cell is None else scene.snapped(replace(view, query=cell[0], key=cell[1]))


def _cell_at(scene: Scene, view: Viewpoint, x: int, y: int) -> tuple[int, int] | None:
    window = scene.window(view)
    form, (down, across) = window.form, window.shape
    row, column = (y - 2) * (2 if form.halves else 1), x // form.columns
    if not (0 <= row < down and 0 <= column < across):
        return None
    return window.top + row * form.rows, window.left + column * form.keys


def _half(scene: Scene, view: Viewpoint, width: int, height: int) -> list[Line]:
    picture, window = scene.picture(view), scene.window(view)
    kind = "change" if view.difference and view.against else "scores" if view.scores else "weights"
    ramp = ramp_for(picture.values, kind, view.scale, light=scene.screen.light)
    title = _title(scene, view, window, ramp, coarse=picture.coarse)
    cursor = window.cell_of(view.query, view.key)
    body = _body(scene, scene.grid(view), window, picture, ramp, cursor)
    lines = [parts_line(title, width, BOLD), _ruler(scene, scene.grid(view), window, cursor[1]), *body]
    lines += [[]] * (height - len(lines))
    return lines[:height]


def _other_half(scene: Scene, view: Viewpoint, width: int, height: int) -> list[Line]:
    grid, window, picture = scene.other_grid(view), scene.other_window(view), scene.other_picture(view)
    ramp = ramp_for(picture.values, "scores" if view.scores else "weights", view.scale, light=scene.screen.light)
    cursor = window.cell_of(min(view.query, len(grid.queries) - 1), min(view.key, len(grid.keys) - 1))
    title = [f"against {against_name(scene, view)}", f"{len(grid.queries):,} x {len(grid.keys):,}",
             *(["coarse"] if picture.coarse else []),
             _range(ramp, view.scale)]  # fmt: skip
    lines = [parts_line(title, width, BOLD), _ruler(scene, grid, window, cursor[1]),
             *_body(scene, grid, window, picture, ramp, cursor)]  # fmt: skip
    lines += [[]] * (height - len(lines))
    return lines[:height]


def _title(scene: Scene, view: Viewpoint, window: MatrixWindow, ramp: Ramp, *, coarse: bool) -> list[str]:
    n, m = scene.size(view)
    form = window.form
    kind = "change of weights" if view.difference and view.against else "scores" if view.scores else "weights"
    kind = "by value" if scene.reads_values(view) else kind
    kind += " between words" if view.words and scene.has_words(view) else ""
    parts = [head_name(scene, view), kind, f"{n:,} x {m:,}"]
    parts += ["coarse"] if coarse else []
    parts += ["sinks hidden"] if view.hide_sinks else []
    signed = view.scores or (view.difference and view.against is not None)
    pooling = "farthest from 0" if signed else "max"
    parts += [f"{pooling} over {form.rows} x {form.keys}"] if form.rows * form.keys > 1 else []
    return [*parts, _range(ramp, view.scale)]


def _range(ramp: Ramp, scale: str) -> str:
    if ramp.diverging:
        return f"{ramp.low:.3g} to {ramp.high:.3g}"
    return "each row from 0 to its maximum" if scale == "row" else f"{scale} scale 0 to {ramp.high:.3g}"


def _ruler(scene: Scene, grid: Grid, window: MatrixWindow, cursor: int) -> Line:
    """Keys over the cells, by number; their words over wide cells; a mark over the cursor."""
    form, across = window.form, window.shape[1]
    columns = form.columns
    if form.number:
        labels = [_over(grid.keys[window.left + at], scene, columns) for at in range(across)]
        return [Segment(label, BOLD if at == cursor else DIM) for at, label in enumerate(labels)]
    width = across * columns
    ruler = [" "] * (width + 8)
    every = 10 if columns == 1 else 5
    for at in range(0, across, every):
        number = str(window.left + at * form.keys)
        ruler[at * columns : at * columns + len(number)] = number
    text = "".join(ruler).rstrip()
    place = cursor * columns
    text = text.ljust(place + 1)
    return [Segment(text[:place], DIM), Segment("▼", BOLD), Segment(text[place + 1 :], DIM)]


def _over(token: Token, scene: Scene, columns: int) -> str:
    text = token.text
    label = fit(text_with_mark(replace(token, text=text)), columns - 1).rstrip()
    return " " * (columns - cell_len(label)) + label


def _body(
    scene: Scene, grid: Grid, window: MatrixWindow, picture: Picture, ramp: Ramp, cursor: tuple[int, int]
) -> list[Line]:
    """The cells, and a label behind each line; the cursor's cell is marked."""
    form, screen = window.form, scene.screen
    steps, lines = _cells(picture, form, ramp, screen)
    labels = label_columns(screen)
    step = 2 if form.halves else 1
    body: list[Line] = []
    for top, cells in zip(range(0, len(steps), step), lines, strict=True):
        here = top <= cursor[0] < top + step
        if here and form.number:
            text = cells[cursor[1]].text
            cells = [*cells[: cursor[1]], Segment(text, CURSOR), *cells[cursor[1] + 1 :]]
        elif here and form.halves:
            lower = int(steps[top + 1, cursor[1]]) if top + 1 < len(steps) else MASKED_STEP
            cells = _with_half_marked(cells, (int(steps[top, cursor[1]]), lower), cursor, ramp, scene)
        elif here:
            cells = _with_cell_marked(cells, cursor[1], form.columns, scene)
        body.append([*cells, *_row_label(scene, grid, window, top, here, labels)])
    return body


@lru_cache(maxsize=8)
def _cells(picture: Picture, form: CellForm, ramp: Ramp, screen: Screen) -> tuple[np.ndarray, list[Line]]:
    """The steps of all cells, and the lines that show them: nothing of it moves with the cursor."""
    steps = steps_of(ramp.levels(picture.values), steps=_STEPS)
    if form.number:
        rows = zip(picture.values.tolist(), steps.tolist(), strict=True)
        return steps, [
            [Segment(_number(value, ramp), cell_style(step, ramp, screen)) for value, step in zip(*row, strict=True)]
            for row in rows
        ]
    if not form.halves:
        return steps, [full_cells(row, form.columns, ramp, screen) for row in steps]
    blank = np.full(steps.shape[1], MASKED_STEP)
    below = [steps[top + 1] if top + 1 < len(steps) else blank for top in range(0, len(steps), 2)]
    return steps, [half_cells(upper, lower, ramp, screen) for upper, lower in zip(steps[::2], below, strict=True)]


def _with_half_marked(cells: Line, pair: tuple[int, int], cursor: tuple[int, int], ramp: Ramp, scene: Scene) -> Line:
    mark = Style.parse(MARKED[scene.screen.depth])
    upper = cursor[0] % 2 == 0
    other = pair[1] if upper else pair[0]
    background = half_cell(other, other, ramp, scene.screen)[1]
    return _replaced(cells, cursor[1], 1, Segment("▀" if upper else "▄", background + mark))


def _with_cell_marked(cells: Line, at: int, columns: int, scene: Scene) -> Line:
    start = at * columns
    if scene.screen.depth in ("truecolor", "256"):
        return _replaced(cells, start, columns, Segment(" " * columns, Style.parse(f"on {MARKED[scene.screen.depth]}")))
    mark = "◆"
    return _replaced(cells, start, columns, Segment(mark * columns, CURSOR))


def _replaced(cells: Line, start: int, columns: int, segment: Segment) -> Line:
    total = sum(len(cell.text) for cell in cells)
    parts = [list(part) for part in Segment.divide(cells, [start, start + columns, total])]
    return [*(parts[0] if start else []), segment, *(parts[2] if len(parts) > 2 else [])]


def _number(value: float, ramp: Ramp) -> str:
    if value != value:
        return " " * 7
    if ramp.diverging:
        return f"{value:7.2f}" if abs(value) < 1000 else f"{value:7.1e}"
    return f"{value:7.4f}"


def _row_label(scene: Scene, grid: Grid, window: MatrixWindow, top: int, here: bool, labels: int) -> Line:
    rows = window.form.rows * (2 if window.form.halves and window.form.rows > 1 else 1)
    first = window.top + top * window.form.rows
    if rows == 1 and not window.form.halves:
        label = short_label(grid.queries[first], scene, labels - 2)
    elif rows == 1:
        label = short_label(grid.queries[first], scene, labels - 2) if top % 2 == 0 else ""
    else:
        last = min(first + rows, window.bottom) - 1
        label = f"{first}-{last}" if last > first else str(first)
    if here:
        return [Segment("◀", BOLD), *line(label, labels - 1, BOLD)]
    return [Segment(" ", PLAIN), *line(label, labels - 1, DIM)]
