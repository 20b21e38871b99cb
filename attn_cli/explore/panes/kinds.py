"""What heads do: a map coloured where they stand out; families by name; the head under the cursor."""

import numpy as np
from rich.segment import Segment
from rich.style import Style

from attn_cli.explore.panes.heads_grid import number_grid
from attn_cli.explore.panes.legend import with_ramp
from attn_cli.explore.panes.lines import BOLD, CURSOR, DIM, PLAIN, Line, line, parts_line
from attn_cli.explore.panes.names import short_label
from attn_cli.explore.scene import JudgedHeads, Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.summaries.standing_out import StandOut, counts, families_of, named_kinds
from attn_cli.views.drawing.palette import Ramp

_LISTED = 7  # lines below the map, where all heads have room above them
_NAME = 16  # columns of a family's name and size
_WIDE = 100  # columns from which a family's line says what its heads do
_RAMP = Ramp(0.0, 1.0)


def kinds_title(scene: Scene, judged: JudgedHeads, width: int) -> Line:
    """The first line of the map of heads by kind (induction, previous token ...): what it shows."""
    heads = sum(layer.h for layer in scene.recording.layers)
    parts = ["what heads do", f"{len(judged.outs)} of {heads} stand out", "weight"]
    return with_ramp(parts_line(parts, width), _RAMP, ("0", "1"), width, scene.screen)


def map_room(scene: Scene, room: int) -> int:
    """The lines that the map of heads by kind (induction ...) takes of `room`, that with layer numbers included."""
    most = max(layer.h for layer in scene.recording.layers)
    return min(most + 1, max(room - _LISTED, room // 2))


def draw_kinds(scene: Scene, view: Viewpoint, judged: JudgedHeads, width: int, room: int) -> list[Line]:
    """The lines of the map of heads, of the kinds with their heads, and of the head under the cursor."""
    layers = scene.recording.layers
    values = np.full((max(layer.h for layer in layers), len(layers)), np.nan)
    for out in judged.outs:
        values[out.at, out.call] = out.weight
    lines = number_grid(scene, view, values, _RAMP, 2, width, map_room(scene, room))
    own = _own(scene, view, judged, width)
    listed = room - len(lines) - len(own)
    families = [_family(heads, view, scene, width) for heads in families_of(judged.outs)]
    families.append(parts_line(counts(judged.summaries), width, DIM))
    if len(families) > listed > 0:
        families = [*families[: listed - 1], families[-1]]
    gaps = min(max(listed - len(families), 0), 2)
    return [*lines, *[[]] * (gaps > 0), *families[: max(listed, 0)], *[[]] * (gaps > 1), *own]


def _family(heads: list[StandOut], view: Viewpoint, scene: Scene, width: int) -> Line:
    name = f"{heads[0].kind.words} {len(heads)}"
    segments: Line = [Segment(f"{name:{_NAME}}", BOLD)]
    words = f"  {heads[0].kind.does}" if width >= _WIDE else ""
    used = max(len(name), _NAME)
    for out in heads:
        here = (out.call, out.at) == (view.at, view.head)
        text = f"{scene.head_label(out.call, out.at)} {out.weight:.2f}"
        if used + len(text) + 2 + len(words) > width:
            break
        style = CURSOR if here else PLAIN
        segments += [Segment("  ", PLAIN), Segment(text, style)]
        used += len(text) + 2
    return [*segments, Segment(words, DIM)] if words else segments


def _own(scene: Scene, view: Viewpoint, judged: JudgedHeads, width: int) -> list[Line]:
    """The sentence on the head under the cursor, and the strongest of what it reads."""
    name, out = scene.head_label(view.at, view.head), judged.of(view.at, view.head)
    if out is None:
        return [line(f"{name} {named_kinds(judged.summaries[view.at])[view.head].does}", width, BOLD), []]
    reads: Line = []
    if out.strongest is not None:
        query, key, weight = out.strongest
        layer = scene.layer(view)
        names = short_label(layer.queries[query], scene), short_label(layer.keys[key], scene)
        reads = [*line(f"strongest: query {names[0]} gives key {names[1]} {weight:.2f}", width, PLAIN)]
        reads += _context(scene, view, query, width - sum(len(part.text) for part in reads))
    words = f"{name} {out.sentence}"
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
    shown = f"{before}{gap}[{' '.join(text[token.start : token.end].split())}]"
    room -= 6
    if room < 12 or not shown.isprintable():
        return []
    return [Segment("  ·  ", DIM), *line(shown[-room:] if len(shown) > room else shown, room, Style(dim=True))]
