"""All heads: a cell each, coloured by one number, or a small picture each; or a table, the most telling first."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from rich.segment import Segment

from attn_cli.explore.grids import thumbnail_weights
from attn_cli.explore.panes.heads_grid import (
    LABEL,
    cell_columns,
    corner,
    heads_a_line,
    number_grid,
    number_text,
    row_label,
    ruler,
)
from attn_cli.explore.panes.kinds import draw_kinds, kinds_title, map_room
from attn_cli.explore.panes.legend import with_ramp
from attn_cli.explore.panes.lines import BOLD, CURSOR, DIM, PLAIN, REVERSED, Line, full_line, line, padded, parts_line
from attn_cli.explore.panes.names import head_name
from attn_cli.explore.regions import Region
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.recording import RecordedLayer
from attn_cli.summaries.reducers.heads import Statistic
from attn_cli.text import counted, model_name, visible
from attn_cli.views.drawing.bars import bar, bar_style
from attn_cli.views.drawing.cells import fit
from attn_cli.views.drawing.palette import Ramp
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.segments import full_cells, half_cells, steps_of

_STEPS = 12  # of levels: few bytes
_LEAST = (3, 2)  # columns and lines


def thumbnail_size(scene: Scene, width: int, room: int) -> tuple[int, int]:
    """The columns and lines that a small picture of a head's matrix takes, with the free column to the next."""
    layers = scene.recording.layers
    most = max(layer.h for layer in layers)
    columns = min(max((width - LABEL) // len(layers), _LEAST[0] + 1), 33)
    lines = min(max(room // most, _LEAST[1]), columns, 16)
    return columns, lines


def thumbnails(scene: Scene, view: Viewpoint, width: int, room: int) -> list[Line]:
    """The lines of small pictures of all heads' matrices, or of as many around the cursor as have room."""
    columns, lines = thumbnail_size(scene, width, room - 1)
    left, top = corner(scene, view, width, room - 1, columns, lines, 1)
    layers = scene.recording.layers[left : left + max((width - LABEL) // columns, 1)]
    drawn: list[Line] = [ruler(scene, left, columns, width)]
    most = max(layer.h for layer in scene.recording.layers)
    for head in range(top, min(top + max((room - 1) // lines, 1), most)):
        pictures = [thumbnail(layer, head, columns - 1, lines, scene.screen) for layer in layers]
        for row in range(lines):
            label = row_label(scene, view, head) if row == 0 else Segment(" " * LABEL, PLAIN)
            cells: Line = []
            for at, picture in enumerate(pictures, left):
                is_cursor = (at, head) == (view.at, view.head)
                gap = Segment("◀" if is_cursor and row == 0 else " ", CURSOR if is_cursor else PLAIN)
                cells += [*(picture[row] if picture else [Segment(" " * (columns - 1), PLAIN)]), gap]
            drawn.append([label, *cells])
    return drawn


def thumbnail(layer: RecordedLayer, head: int, columns: int, lines: int, screen: Screen) -> list[Line]:
    """The lines of a head's pooled matrix, in so many columns and lines; [] where the layer has no such head."""
    return _layer_thumbnails(layer, columns, lines, screen)[head] if head < layer.h else []


@lru_cache(maxsize=1024)
def _layer_thumbnails(layer: RecordedLayer, columns: int, lines: int, screen: Screen) -> list[list[Line]]:
    down = lines * (2 if screen.halves else 1)
    ramp = Ramp(0.0, 1.0, scale="sqrt")
    levels = steps_of(ramp.levels(_resized(thumbnail_weights(layer.thumbnail), down, columns)), steps=_STEPS)
    if screen.halves:
        return [[half_cells(head[at], head[at + 1], ramp, screen) for at in range(0, down, 2)] for head in levels]
    return [[full_cells(row, 1, ramp, screen) for row in head] for head in levels]


def _resized(values: np.ndarray, down: int, across: int) -> np.ndarray:
    """`[h, n, m]` to `[h, down, across]`: the largest of what falls into a cell; cells repeat where there are more."""
    for axis, count in ((1, down), (2, across)):
        size = values.shape[axis]
        if count >= size:
            values = np.take(values, np.arange(count) * size // count, axis=axis)
        else:
            values = np.fmax.reduceat(values, np.arange(count) * size // count, axis=axis)
    return values


_HEADING = 3  # lines above the heads: model, title, ruler
_SMALL = (6, 12, 8)  # least lines below the heads for a preview; its columns; its lines at most


def draw(scene: Scene, view: Viewpoint, region: Region) -> list[Line]:
    """The heads, coloured by kind or a statistic, as thumbnails of their matrices, or as a sorted list."""
    width, height = region.width, region.height
    work = scene.shown_work(view)
    second = _title(scene, view, width) if work is None else kinds_title(scene, work, width)
    above = [parts_line(_source(scene), width, BOLD), second]
    room = height - len(above) - 1
    if view.sorted:
        body = _table(scene, view, width, room)
    elif work is not None:
        body = draw_kinds(scene, view, work, width, room)
    else:
        body = thumbnails(scene, view, width, room) if view.thumbnails else _grid(scene, view, width, room)
    body = [*body[:room], *([[]] * (room - len(body)))]
    status = parts_line(_status(scene, view), width, REVERSED, "  ")
    return [*above, *body, full_line(status[0].text, width, REVERSED)]


def pointed(scene: Scene, view: Viewpoint, region: Region, x: int, y: int) -> Viewpoint | None:
    """The viewpoint on the head at column x and line y of the pane, from 0; None where there is none."""
    place = _head_at(scene, view, region, x, y)
    return None if place is None else replace(view, at=place[0], head=place[1])


def _head_at(scene: Scene, view: Viewpoint, region: Region, x: int, y: int) -> tuple[int, int] | None:
    """The head at a place of the pane: the places of its layer and of it in the layer; None where there is none."""
    room, y = region.height - _HEADING, y - _HEADING
    if view.sorted:
        first = _first_rank(scene, view, room - 1)
        ranked = scene.ranked(view)
        return ranked[first + y] if 0 <= y < room - 1 and first + y < len(ranked) else None
    layers = scene.recording.layers
    room = map_room(scene, room) if scene.shown_work(view) is not None else room
    if view.thumbnails:
        columns, lines = thumbnail_size(scene, region.width, room - 1)
        down = 1
    else:
        columns, lines, down = cell_columns(scene, region.width), 1, heads_a_line(scene, room - 1)
    left, top = corner(scene, view, region.width, room - 1, columns, lines, down)
    at, head = left + (x - LABEL) // columns, (top + y // lines) * down
    return (at, head) if x >= LABEL and y >= 0 and at < len(layers) and head < layers[at].h else None


def _source(scene: Scene) -> list[str]:
    layers = scene.recording.layers
    heads = sum(layer.h for layer in layers)
    tokens = counted(len(scene.recording.prompt.tokens), "token")
    name = visible(model_name(str(scene.recording.about.get("model", ""))))
    return [name, f"{counted(len(layers), 'layer')}, {counted(heads, 'head')}", tokens]


def _title(scene: Scene, view: Viewpoint, width: int) -> Line:
    """The line over the map: by which number, from where to where; and which layers, where not all have room."""
    statistic = scene.statistic(view)
    values = _values(scene, statistic)
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    ends = f"{low:.{statistic.digits}f} to {high:.{statistic.digits}f}"
    name = statistic.heading
    if view.sorted:
        order = "largest" if statistic.largest_first else "smallest"
        return parts_line([f"heads by {name}, {order} first", ends, statistic.meaning.partition(";")[0]], width)
    if view.thumbnails:
        columns = thumbnail_size(scene, width, scene.lines)[0]
        return parts_line(["heads as pictures", *_seen(scene, view, columns, width), "rows are queries"], width)
    judging = [] if scene.is_judged else ["looking for heads that stand out"]
    if scene.is_judged and not scene.judge().outs:
        judging = ["none stands out"]
    seen = _seen(scene, view, cell_columns(scene, width), width)
    title = parts_line([f"heads by {name}", *judging, *seen], width)
    return with_ramp(title, Ramp(0.0, 1.0), (f"{low:.{statistic.digits}f}", f"{high:.{statistic.digits}f}"), width,
                     scene.screen)  # fmt: skip


def _seen(scene: Scene, view: Viewpoint, columns: int, width: int) -> list[str]:
    layers, fit_in = scene.recording.layers, max((width - LABEL) // columns, 1)
    if len(layers) <= fit_in:
        return ["layers across, heads down"]
    left = corner(scene, view, width, scene.lines, columns, 1, 1)[0]
    names = [layer.place.layer for layer in layers]
    return [f"layers {names[left]} to {names[left + fit_in - 1]} of {len(layers)}"]


def _values(scene: Scene, statistic: Statistic) -> np.ndarray:
    layers = scene.recording.layers
    values = np.full((max(layer.h for layer in layers), len(layers)), np.nan)
    for at, layer in enumerate(layers):
        values[: layer.h, at] = layer.statistics.get(statistic.name, np.nan)
    return values


def _grid(scene: Scene, view: Viewpoint, width: int, room: int) -> list[Line]:
    statistic = scene.statistic(view)
    values = _values(scene, statistic)
    finite = values[np.isfinite(values)]
    ramp = Ramp(float(finite.min()) if finite.size else 0.0, float(finite.max()) if finite.size else 1.0)
    lines = number_grid(scene, view, values, ramp, statistic.digits, width, room)
    free = room - len(lines) - 1
    if free >= _SMALL[0]:
        lines += [[], *_preview(scene, view, width, min(free, _SMALL[2]))]
    return lines


def _preview(scene: Scene, view: Viewpoint, width: int, height: int) -> list[Line]:
    """The head under the cursor: a small picture, and all its numbers."""
    layer = scene.layer(view)
    columns = min(_SMALL[1], 2 * height)
    picture = thumbnail(layer, view.head, columns, height, scene.screen)
    lines: list[Line] = []
    statistics = scene.statistics[:height]
    wide = max((len(each.heading) for each in statistics), default=0)
    for row in range(height):
        words = drawn = ""
        if row < len(statistics):
            each = statistics[row]
            value = float(layer.statistics.get(each.name, np.full(layer.h, np.nan))[view.head])
            number = "-" if value != value else f"{value:.{each.digits}f}"
            words = f"{each.heading:{wide}}  {number:>7}"
            if each.unit == "weight" and value == value:
                drawn = bar(value, min(20, max(width - LABEL - columns - len(words) - 6, 0)))
        left = padded([Segment(" " * LABEL, PLAIN), *picture[row]], LABEL + columns + 3)
        words_line = line(words, max(width - LABEL - columns - 3, 1))
        lines.append([*left, *words_line, Segment("  ", PLAIN), Segment(drawn, bar_style(scene.screen.depth))])
    return lines


def _first_rank(scene: Scene, view: Viewpoint, room: int) -> int:
    ranked = scene.ranked(view)
    return min(max(ranked.index((view.at, view.head)) - room // 2, 0), max(len(ranked) - room, 0))


def _table(scene: Scene, view: Viewpoint, width: int, room: int) -> list[Line]:
    """A line for each head, as sorted, with its numbers."""
    chosen = scene.statistic(view)
    shown = [chosen, *(each for each in scene.statistics if each is not chosen)]
    wide = [max(len(each.heading), 8) + 2 for each in shown]
    while sum(wide) > width - 12 and len(wide) > 1:
        wide.pop()
    heading = "".join(each.heading.rjust(columns) for each, columns in zip(shown, wide, strict=False))
    lines: list[Line] = [line(f"{'head':>10}{heading}", width, DIM)]
    ranked, first = scene.ranked(view), _first_rank(scene, view, room - 1)
    for at, head in ranked[first : first + room - 1]:
        layer = scene.recording.layers[at]
        name = f"{layer.place.layer}.{layer.place.heads[head]}"
        stream = "" if layer.place.stream == "self" else layer.place.stream[:3] + " "
        numbers = "".join(
            number_text(float(layer.statistics.get(each.name, np.full(layer.h, np.nan))[head]), columns, each.digits)
            for each, columns in zip(shown, wide, strict=False)
        )
        is_cursor = (at, head) == (view.at, view.head)
        text = f"{'▶ ' if is_cursor else '  '}{stream + name:>8}{numbers}"
        lines.append(line(fit(text, width), width, BOLD if is_cursor else PLAIN))
    return lines


def _status(scene: Scene, view: Viewpoint) -> list[str]:
    layer, place = scene.layer(view), scene.layer(view).place
    shared = [f"kv head {place.groups[view.head]}"] if len(set(place.groups)) < len(place.groups) else []
    numbers = []
    for each in scene.statistics:
        value = float(layer.statistics.get(each.name, np.full(layer.h, np.nan))[view.head])
        if value == value:
            numbers.append(f"{each.heading.replace(' (bits)', '')} {value:.{each.digits}f}")
    return [" · ".join([head_name(scene, view, view.at), *shared]), *numbers]
