"""One head's matrix: a window of it as a heat map, the cursor marked in the map, above it and beside it."""

from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.segment import Segment

from attn_cli.explore.panes import text
from attn_cli.explore.panes.heat import heat_lines
from attn_cli.explore.panes.lines import Line, cell_line, filled, line, parts_line, short_label
from attn_cli.explore.scene import Scene, Size
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.explore.window import MatrixWindow
from attn_cli.prompt import Token
from attn_cli.views.drawing.cells import BOLD, DIM, fit_right
from attn_cli.views.drawing.labels import text_with_mark
from attn_cli.views.drawing.palette import Ramp, ramp_for

_NAMED = 5  # columns of a cell from which a word stands over it


def draw(scene: Scene, view: Viewpoint, size: Size) -> list[Line]:
    """The lines of the matrix: what it is, keys, cells with queries behind them, the cell under the cursor."""
    picture, window, grid = scene.picture(view), scene.window(view), scene.grid(view)
    ramp = ramp_for(picture.values, "scores" if view.scores else "weights", view.scale, light=scene.screen.light)
    title = _title(scene, view, window, ramp, [] if picture.is_computed else ["computing"])
    cursor = window.cell_of(view.query, view.key)
    lines = [parts_line(title, size.width, BOLD), _ruler(grid.layer.keys, window, cursor[1])]
    step, columns = 2 if window.form.halves else 1, scene.row_labels(view) - 1
    for at, cells in enumerate(heat_lines(picture, window.form, ramp, scene.screen, cursor, {})):
        is_here = cursor[0] // step == at
        label = _row_label(grid.layer.queries, window, cursor[0] if is_here else at * step, columns)
        lines.append([*cells, Segment("◀" if is_here else " ", BOLD), *line(label, columns, BOLD if is_here else DIM)])
    row, room = replace(view, by_column=False), size.height - 3 - len(lines)
    if room > 1 and "text" not in scene.sizes(view):
        lines += [[], *text.table(scene, row, scene.row(row), scene.heaviest(row, room).tolist(), size.width)]
    return [*filled(lines, size.height - 1), cell_line(scene, view, size.width)]


def pointed(scene: Scene, view: Viewpoint, size: Size, x: int, y: int) -> Viewpoint | None:
    """The viewpoint on the cell at column x and line y of the pane, from 0; None where there is none."""
    window = scene.window(view)
    form, (down, across) = window.form, window.shape
    row, column = (y - 2) * (2 if form.halves else 1), x // form.columns
    if not (0 <= row < down and 0 <= column < across):
        return None
    return scene.snapped(replace(view, query=window.top + row * form.rows, key=window.left + column * form.keys))


def _title(scene: Scene, view: Viewpoint, window: MatrixWindow, ramp: Ramp, more: list[str]) -> list[str]:
    form, (n, m) = window.form, scene.size(view)
    parts = [scene.title(view), "scores" if view.scores else "weights", f"{n:,} x {m:,}", *more]
    parts += ["sinks hidden"] if view.hide_sinks else []
    pooling = "farthest from 0" if view.scores else "mean row"
    parts += [f"{pooling} of {form.rows} x {form.keys}"] if form.rows * form.keys > 1 else []
    if ramp.diverging:
        return [*parts, f"{ramp.low:.3g} to {ramp.high:.3g}"]
    return [
        *parts,
        "each row from 0 to its maximum" if view.scale == "row" else f"{view.scale} scale 0 to {ramp.high:.3g}",
    ]


def _ruler(keys: Sequence[Token], window: MatrixWindow, cursor: int) -> Line:
    """Keys over the cells, by number; their words over wide cells; a mark over the cursor."""
    form, across = window.form, window.shape[1]
    columns, places = form.columns, range(window.left, window.right)
    names = [text_with_mark(keys[at]).replace("\n", "␊") for at in places] if columns >= _NAMED else []
    if 2 * sum(cell_len(name) < columns for name in names) > len(names):
        return [Segment(fit_right(name, columns), BOLD if at == cursor else DIM) for at, name in enumerate(names)]
    if form.number and len(str(window.right - 1)) < columns:
        return [Segment(f"{at:>{columns}}", BOLD if at - window.left == cursor else DIM) for at in places]
    every, place = 10 if columns == 1 else 5, cursor * columns
    starts = range(0, across, every)  # of labels, of which none is half under the mark
    labels = ("" if 0 <= cursor - at <= every // 2 else f"{window.left + at * form.keys}" for at in starts)
    ruler = "".join(label.ljust(every * columns) for label in labels).rstrip().ljust(place + 1)
    return [Segment(ruler[:place], DIM), Segment("▼", BOLD), Segment(ruler[place + 1 :], DIM)]


def _row_label(queries: Sequence[Token], window: MatrixWindow, row: int, columns: int) -> str:
    """The query of a line of cells; of blocks, or of two queries in half blocks, their numbers."""
    form, first = window.form, window.top + row * window.form.rows
    if form.rows == 1:
        return short_label(queries, first, columns - 1)
    last = min(first + form.rows * (2 if form.halves else 1), window.bottom) - 1
    return f"{first}-{last}" if last > first else str(first)
