"""Where heads stand in a map of all of them: layers across, heads down, with their numbers around."""

from rich.segment import Segment

from attn_cli.explore.panes.lines import CURSOR, DIM, PLAIN, Line
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint

LABEL = 6  # columns before the first head


def cell_columns(scene: Scene, width: int) -> int:
    """How many columns of the screen each layer has in the map of heads: 1 to 7."""
    count = max(len(scene.recording.layers), 1)
    return min(max((width - LABEL) // count, 1), 7)


def heads_a_line(scene: Scene, room: int) -> int:
    """How many heads share a line of the map: 2 where half blocks can be drawn and heads are more than lines, else
    1.
    """
    most = max(layer.h for layer in scene.recording.layers)
    return 2 if most > room and scene.screen.halves else 1


def corner(
    scene: Scene, view: Viewpoint, width: int, room: int, columns: int, lines: int, down: int
) -> tuple[int, int]:
    """The indices of the first layer and first line of heads that are drawn, so that the cursor's head is among
    them.
    """
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


def marked(cells: Line, start: int, columns: int, mark: str) -> Line:
    """A line of the map of heads with a mark, in reverse, over `columns` of its columns from `start` on."""
    if columns <= 0:
        return cells
    parts = list(Segment.divide(cells, [start, start + columns, sum(len(cell.text) for cell in cells)]))
    before, inside, after = (list(part) for part in (*parts, [], [], [])[:3])
    style = inside[0].style or PLAIN if inside else PLAIN
    return [*before, Segment(mark.ljust(columns) if mark == "◆" else mark * columns, style + CURSOR), *after]


def restyled(cells: Line, at: int) -> Line:
    """A line of the map of heads with the cell of index `at` in reverse."""
    return [
        Segment(cell.text, (cell.style or PLAIN) + CURSOR) if number == at else cell
        for number, cell in enumerate(cells)
    ]
