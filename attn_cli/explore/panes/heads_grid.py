"""Where heads stand in a map of all of them: layers across, heads down, with their numbers around."""

from rich.segment import Segment

from attn_cli.explore.panes.lines import CURSOR, DIM, PLAIN, Line
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint

LABEL = 6  # columns before the first head


def cell_columns(scene: Scene, width: int) -> int:
    """The columns of a head's cell."""
    count = max(len(scene.recording.layers), 1)
    return min(max((width - LABEL) // count, 1), 7)


def heads_a_line(scene: Scene, room: int) -> int:
    """The number of heads that share a line: two where there are more than lines, and colours for it."""
    most = max(layer.h for layer in scene.recording.layers)
    return 2 if most > room and scene.screen.halves else 1


def corner(
    scene: Scene, view: Viewpoint, width: int, room: int, columns: int, lines: int, down: int
) -> tuple[int, int]:
    """The first layer and the first line of heads that are seen, so that the cursor is among them."""
    layers = scene.recording.layers
    across, deep = max((width - LABEL) // columns, 1), max(room // lines, 1)
    rows = -(-max(layer.h for layer in layers) // down)
    ends = []
    for place, fits, total in ((view.at, across, len(layers)), (view.head // down, deep, rows)):
        ends.append(min(max(place - fits // 2, 0), max(total - fits, 0)))
    return ends[0], ends[1]


def ruler(scene: Scene, left: int, columns: int, width: int) -> Line:
    """The numbers of layers over their cells, as many as have room."""
    layers = scene.recording.layers[left : left + (width - LABEL) // columns]
    names = [str(layer.place.layer) for layer in layers]
    every = -(-(max(map(len, names), default=1) + 1) // columns)
    marks = "".join(name.ljust(columns * every)[: columns * every] for name in names[::every])
    return [Segment("layer".ljust(LABEL) + marks, DIM)]


def row_label(scene: Scene, view: Viewpoint, head: int) -> Segment:
    """The true number of a head, where all layers agree on it."""
    heads = scene.layer(view).place.heads
    return Segment(f"{heads[head]:>4}  " if head < len(heads) else " " * LABEL, DIM)


def marked(cells: Line, start: int, columns: int, mark: str) -> Line:
    """A line of cells with a mark, reversed, on some of its columns."""
    if columns <= 0:
        return cells
    parts = list(Segment.divide(cells, [start, start + columns, sum(len(cell.text) for cell in cells)]))
    before, inside, after = (list(part) for part in (*parts, [], [], [])[:3])
    style = inside[0].style or PLAIN if inside else PLAIN
    return [*before, Segment(mark.ljust(columns) if mark == "◆" else mark * columns, style + CURSOR), *after]


def restyled(cells: Line, at: int) -> Line:
    """The line with its cell `at` reversed."""
    return [
        Segment(cell.text, (cell.style or PLAIN) + CURSOR) if number == at else cell
        for number, cell in enumerate(cells)
    ]
