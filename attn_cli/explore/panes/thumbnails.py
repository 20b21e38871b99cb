"""Small pictures of the matrices of all heads, or of those around the cursor."""

from functools import lru_cache

import numpy as np
from rich.segment import Segment

from attn_cli.explore.grids import thumbnail_weights
from attn_cli.explore.panes.heads_grid import LABEL, corner, row_label, ruler
from attn_cli.explore.panes.lines import CURSOR, PLAIN, Line
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.recording import RecordedLayer
from attn_cli.views.drawing.palette import Ramp
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.segments import full_cells, half_cells, steps_of

_STEPS = 12  # of levels: few bytes
_LEAST = (3, 2)  # columns and lines


def thumbnail_size(scene: Scene, width: int, room: int) -> tuple[int, int]:
    """The columns and lines that a small picture of a head's matrix takes, with the free column to the next.

    width, room  the columns and lines for all of them
    """
    layers = scene.recording.layers
    most = max(layer.h for layer in layers)
    columns = min(max((width - LABEL) // len(layers), _LEAST[0] + 1), 33)
    lines = min(max(room // most, _LEAST[1]), columns, 16)
    return columns, lines


def thumbnails(scene: Scene, view: Viewpoint, width: int, room: int) -> list[Line]:
    """The lines of small pictures of all heads' matrices, or of as many around the cursor as have room.

    width, room  the columns and lines for all of them
    """
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
    """The matrices of all heads of a layer."""
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
