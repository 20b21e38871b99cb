"""The map of what heads do: letters, coloured where they stand out; families by name; the head under the cursor."""

import numpy as np
from rich.segment import Segment
from rich.style import Style

from attn_cli.explore.panes.heads_grid import LABEL, cell_columns, corner, heads_a_line, row_label, ruler
from attn_cli.explore.panes.legend import with_ramp
from attn_cli.explore.panes.lines import BOLD, CURSOR, DIM, MARKED, PLAIN, Line, line, parts_line
from attn_cli.explore.panes.names import short_label
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.summaries.head_words import NONE, Family, HeadWork, sentence
from attn_cli.text import ascii_visible
from attn_cli.views.drawing.palette import Ramp
from attn_cli.views.drawing.segments import cell_style, half_cells, steps_of

_WITH_NUMBER = 7  # columns of a cell that has a weight beside its letter
_LISTED = 7  # lines below the map, where all heads have room above them
_NAME = 16  # columns of a family's name and size
_WIDE = 100  # columns from which a family's line says what its heads do
_RAMP = Ramp(0.0, 1.0)


def kinds_title(scene: Scene, work: HeadWork, width: int) -> Line:
    """The first line of the map of heads by kind (induction, previous token ...): what it shows."""
    heads = sum(map(len, work.letters))
    parts = ["what heads do", f"{len(work.outs)} of {heads} stand out"]
    if scene.screen.depth == "none":
        return parts_line([*parts, "a letter and tenths of the weight"], width)
    return with_ramp(parts_line([*parts, "weight"], width), _RAMP, ("0", "1"), width, scene.screen)


def map_room(scene: Scene, room: int) -> int:
    """The lines that the map of heads by kind (induction ...) takes of `room`, that with layer numbers included."""
    most = max(layer.h for layer in scene.recording.layers)
    return min(most + 1, max(room - _LISTED, room // 2))


def draw_kinds(scene: Scene, view: Viewpoint, work: HeadWork, width: int, room: int) -> list[Line]:
    """The lines of the map of heads by kind, of the kinds with their heads, and of the head under the cursor."""
    lines = _map(scene, view, work, width, map_room(scene, room))
    own = _own(scene, view, work, width)
    listed = room - len(lines) - len(own)
    families = [_family(family, view, scene, width) for family in work.families]
    others = [f"{count} {name}" for name, count in work.others]
    if others:
        families.append(parts_line(["others: " + others[0], *others[1:]], width, DIM))
    if len(families) > listed > 0:
        families = [*families[: listed - 1], families[-1]]
    gaps = min(max(listed - len(families), 0), 2)
    return [*lines, *[[]] * (gaps > 0), *families[: max(listed, 0)], *[[]] * (gaps > 1), *own]


def _map(scene: Scene, view: Viewpoint, work: HeadWork, width: int, room: int) -> list[Line]:
    """A letter for every head; colours alone where two heads share a line."""
    columns, down = cell_columns(scene, width), heads_a_line(scene, room - 1)
    left, top = corner(scene, view, width, room - 1, columns, 1, down)
    shown = range(left, min(left + max((width - LABEL) // columns, 1), len(work.letters)))
    most = max(layer.h for layer in scene.recording.layers)
    lines: list[Line] = [ruler(scene, left, columns, width)]
    for row in range(top, min(top + room - 1, -(-most // down))):
        if down == 2:
            upper, lower = (_steps(work, shown, 2 * row + at) for at in (0, 1))
            cells: Line = []
            for at, pair in zip(shown, zip(upper, lower, strict=True), strict=True):
                is_cursor = at == view.at and view.head // 2 == row
                part = half_cells(np.array([pair[0]] * columns), np.array([pair[1]] * columns), _RAMP, scene.screen)
                cells += [Segment(("▀" if view.head % 2 == 0 else "▄") * columns, CURSOR)] if is_cursor else part
        else:
            cells = [_cell(scene, work, at, row, columns, is_cursor=(at, row) == (view.at, view.head)) for at in shown]
        lines.append([row_label(scene, view, row * down), *cells])
    return lines


def _steps(work: HeadWork, shown: range, head: int) -> np.ndarray:
    values = [work.weights[at][head] if head < len(work.weights[at]) else np.nan for at in shown]
    return steps_of(_RAMP.levels(np.array(values)))


def _cell(scene: Scene, work: HeadWork, at: int, head: int, columns: int, *, is_cursor: bool) -> Segment:
    """One head: its letter, its weight where there is room or no colour, its colour where it stands out."""
    if head >= len(work.letters[at]):
        return Segment(" " * columns, PLAIN)
    letter, weight = work.letters[at][head], float(work.weights[at][head])
    stands = weight == weight
    letter = "." if letter == NONE and scene.screen.ascii_only else letter
    text = letter
    if stands and columns >= _WITH_NUMBER:
        text = f"{letter} {weight:.2f}"
    elif stands and columns > 1 and scene.screen.depth == "none":
        text = f"{letter}{min(int(weight * 10), 9)}"
    style = cell_style(int(steps_of(_RAMP.levels(np.array([weight])))[0]), _RAMP, scene.screen) if stands else DIM
    if is_cursor:
        marked = scene.screen.depth in MARKED
        style = Style.parse(f"bold #000000 on {MARKED[scene.screen.depth]}") if marked else style + CURSOR
    return Segment(f"{text:{columns}}"[:columns], style)


def _family(family: Family, view: Viewpoint, scene: Scene, width: int) -> Line:
    """A family: its letter, name and size, and its heads with their weights, as many as fit."""
    name = f"{family.letter} {family.name} {len(family.heads)}"
    segments: Line = [Segment(f"{name:{_NAME}}", BOLD)]
    words = f"  {family.does}" if width >= _WIDE else ""
    used = max(len(name), _NAME)
    for out in family.heads:
        here = (out.call, out.at) == (view.at, view.head)
        text = f"{scene.head_label(out.call, out.at)} {out.weight:.2f}"
        if used + len(text) + 2 + len(words) > width:
            break
        style = CURSOR if here else PLAIN
        segments += [Segment("  ", PLAIN), Segment(text, style)]
        used += len(text) + 2
    return [*segments, Segment(words, DIM)] if words else segments


def _own(scene: Scene, view: Viewpoint, work: HeadWork, width: int) -> list[Line]:
    """The sentence on the head under the cursor, and the strongest of what it reads."""
    name, out = scene.head_label(view.at, view.head), work.of(view.at, view.head)
    if out is None:
        words = work.does[view.at][view.head] or "does nothing that has a name on this text"
        return [line(f"{name} {words}", width, BOLD), []]
    reads: Line = []
    if out.strongest is not None:
        query, key, weight = out.strongest
        layer = scene.layer(view)
        names = short_label(layer.queries[query], scene), short_label(layer.keys[key], scene)
        reads = [*line(f"strongest: query {names[0]} gives key {names[1]} {weight:.2f}", width, PLAIN)]
        reads += _context(scene, view, query, width - sum(len(part.text) for part in reads))
    words = f"{name} {sentence(out)}"
    if len(words) <= width:
        return [line(words, width, BOLD), reads]
    first, _, second = words.partition(": ")
    return [line(f"{first}:", width, BOLD), line(f"  {second}", width, BOLD), reads]


def _context(scene: Scene, view: Viewpoint, query: int, room: int) -> Line:
    """The words before a query, and the query itself in brackets, in what is left of a line; nothing in little room."""
    queries, text = scene.layer(view).queries, scene.recording.prompt.text
    token = queries[query]
    if token.start is None or token.end is None or queries != scene.recording.prompt.tokens:
        return []
    before = " ".join(text[max(token.start - 60, 0) : token.start].split())
    gap = " " if text[max(token.start - 1, 0) : token.start].isspace() else ""
    words = ascii_visible if scene.screen.ascii_only else str
    shown = words(f"{before}{gap}[{' '.join(text[token.start : token.end].split())}]")
    room -= 6
    if room < 12 or not shown.isprintable():
        return []
    return [Segment("  ·  ", DIM), *line(shown[-room:] if len(shown) > room else shown, room, Style(dim=True))]
