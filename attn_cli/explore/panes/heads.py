"""All heads: a cell each, coloured where they stand out or by one number."""

from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap

import numpy as np
from rich.cells import cell_len
from rich.segment import Segment

from attn_cli.explore.panes.heat import heat_lines, with_cell
from attn_cli.explore.panes.lines import CURSOR, Line, filled, line, parts_line, status_line, with_ramp
from attn_cli.explore.panes.names import short_label
from attn_cli.explore.pictures import Picture
from attn_cli.explore.scene import JudgedHeads, Scene, Size
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.explore.window import CellForm, MatrixWindow, Space, window_at
from attn_cli.summaries.standing_out import NO_KIND, counts, families_of, named_kinds
from attn_cli.text import counted, model_name, visible
from attn_cli.views.answers.story import token_name
from attn_cli.views.drawing.cells import BOLD, DIM, PLAIN
from attn_cli.views.drawing.palette import Ramp, background

_LABEL = 6  # columns before the first head
_HEADING = 2  # lines above the heads: title, ruler
_WIDEST = 7  # columns of a layer
_LISTED = 7  # lines below the map, where all heads have room above them
_NAME = 16  # columns of a family's name and size
_WIDE = 100  # columns from which a family's line says what its heads do


def draw(scene: Scene, view: Viewpoint, size: Size) -> list[Line]:
    """The heads, coloured by kind or a statistic; the last line has the cursor's numbers."""
    judged, room = scene.shown_kinds(view), size.height - 2
    body = _map(scene, view, judged, size)
    body += [] if judged is None else _kinds(scene, view, judged, size.width, room - len(body))
    status = status_line(_status(scene, view), size.width, "  ")
    return [_title(scene, view, judged, size.width), *filled(body, room), status]


def pointed(scene: Scene, view: Viewpoint, size: Size, x: int, y: int) -> Viewpoint | None:
    """The viewpoint on the head at column x and line y of the pane, from 0; None where there is none."""
    row, column = y - _HEADING, x - _LABEL
    window, layers = _window(scene, view, size), scene.recording.layers
    at, head = window.left + column // window.form.columns, window.top + row * (2 if window.form.halves else 1)
    is_head = row >= 0 and column >= 0 and 0 <= at < len(layers) and head < layers[at].h
    return replace(view, at=at, head=head) if is_head else None


def _window(scene: Scene, view: Viewpoint, size: Size) -> MatrixWindow:
    """The heads that are seen, and the columns that a layer has; two heads share a line where lines are too few."""
    layers, room = scene.recording.layers, size.height - 3
    most = max(layer.h for layer in layers)
    lines = max(min(most, max(room - _LISTED, room // 2)) if scene.shown_kinds(view) else room, 1)
    columns = min(max((size.width - _LABEL) // len(layers), 1), _WIDEST)
    form = CellForm(1, 1, columns, most > lines and scene.screen.halves)
    space = Space(lines, max(size.width - _LABEL, 1), scene.screen.halves)
    down, across = space.capacity(form)
    corner = max(view.head - down // 2, 0), max(view.at - across // 2, 0)
    return window_at(form, (most, len(layers)), space, corner, (view.head, view.at))


def _title(scene: Scene, view: Viewpoint, judged: JudgedHeads | None, width: int) -> Line:
    """Which model and text, what the map shows, and the ends of its scale."""
    layers, statistic = scene.recording.layers, scene.statistic(view)
    name = visible(model_name(str(scene.recording.about.get("model", ""))))
    heads, tokens = sum(layer.h for layer in layers), counted(len(scene.recording.prompt.tokens), "token")
    about = [name, counted(len(layers), "layer"), counted(heads, "head"), tokens]
    if judged is not None:
        parts = parts_line([*about, f"{len(judged.outs)} stand out"], width - 16, BOLD)
        return with_ramp(parts, Ramp(0.0, 1.0, light=scene.screen.light), ("0", "1"), width, scene.screen)
    ramp = _ramp(scene.values(statistic), light=scene.screen.light)
    ends = f"{ramp.low:.{statistic.digits}f}", f"{ramp.high:.{statistic.digits}f}"
    known = "no head stands out" if scene.is_judged else "looking for heads that stand out"
    parts = parts_line([name, f"{counted(heads, 'head')} by {statistic.heading}", tokens, known], width - 22, BOLD)
    return with_ramp(parts, ramp, ends, width, scene.screen)


def _ramp(values: np.ndarray, *, light: bool) -> Ramp:
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return Ramp(low, high if high > low else low + 1, light=light)


def _map(scene: Scene, view: Viewpoint, judged: JudgedHeads | None, size: Size) -> list[Line]:
    """Layers across, heads down, under the numbers of layers and behind those of heads."""
    window, layers = _window(scene, view, size), scene.recording.layers
    form, heads = window.form, scene.layer(view).place.heads
    if judged is None:
        values = scene.values(scene.statistic(view))
        ramp = _ramp(values, light=scene.screen.light)
    else:
        values = np.full((max(layer.h for layer in layers), len(layers)), np.nan)
        ramp = Ramp(0.0, 1.0, light=scene.screen.light)
        for out in judged.outs:
            values[out.at, out.call] = out.weight
    picture = Picture(values[window.top : window.bottom, window.left : window.right])
    cells = heat_lines(picture, form, ramp, scene.screen, window.cell_of(view.head, view.at))
    for at, head, _ in [] if form.halves else scene.bringing:
        row, column = window.cell_of(head, at)
        if (at, head) != (view.at, view.head) and row in range(len(cells)) and column in range(window.shape[1]):
            style = background(float(ramp.levels(picture.values[row, column])), ramp, scene.screen.depth)
            cells[row] = with_cell(cells[row], column, Segment("•".center(form.columns), style + BOLD))
    names = [str(layer.place.layer) for layer in layers[window.left : window.right]]
    every = -(-(max(map(len, names)) + 1) // form.columns)
    ruler = "".join(name.ljust(form.columns * every) for name in names[::every])
    lines: list[Line] = [[Segment("layer".ljust(_LABEL) + ruler[: size.width - _LABEL], DIM)]]
    for at, each in enumerate(cells):
        head = window.top + at * (2 if form.halves else 1)
        lines.append([Segment(f"{heads[head]:>4}  " if head < len(heads) else " " * _LABEL, DIM), *each])
    return lines


def _kinds(scene: Scene, view: Viewpoint, judged: JudgedHeads, width: int, room: int) -> list[Line]:
    """The families of heads by name, and what the head under the cursor does."""
    own = _own(scene, view, judged, width)
    answer = [_family(("• answer", "bring words that it needs"), scene.bringing, view, scene, width)]
    families = answer if scene.bringing else []
    for heads in families_of(judged.outs):
        kind, places = heads[0].kind, [(out.call, out.at, out.weight) for out in heads]
        families.append(_family((kind.words, kind.does), places, view, scene, width))
    families.append(parts_line(["others", *counts(judged.summaries, judged.outs)], width, DIM))
    listed = room - len(own)
    if len(families) > listed > 0:
        families = [*families[: listed - 1], families[-1]]
    gaps = min(max(listed - len(families), 0), 2)
    return [*[[]] * (gaps > 0), *families[: max(listed, 0)], *[[]] * (gaps > 1), *own]


def _family(
    words: tuple[str, str], heads: Sequence[tuple[int, int, float]], view: Viewpoint, scene: Scene, width: int
) -> Line:
    """A family's name, its heads with their weights, as many as fit, and what they do."""
    name, does = f"{words[0]} {len(heads)}", f"  {words[1]}" if width >= _WIDE else ""
    segments: Line = [Segment(f"{name:{_NAME}}", BOLD)]
    used = max(len(name), _NAME)
    for at, head, weight in heads:
        text = f"{scene.head_label(at, head)} {weight:.2f}"
        if used + len(text) + 2 + len(does) > width:
            break
        segments += [Segment("  ", PLAIN), Segment(text, CURSOR if (at, head) == (view.at, view.head) else PLAIN)]
        used += len(text) + 2
    return [*segments, Segment(does, DIM)] if does else segments


def _own(scene: Scene, view: Viewpoint, judged: JudgedHeads, width: int) -> list[Line]:
    """The sentence on the head under the cursor, and the strongest of what it reads; first the word that it brings."""
    name = scene.head_label(view.at, view.head)
    out = next((out for out in judged.outs if (out.call, out.at) == (view.at, view.head)), None)
    kind = named_kinds(judged.summaries[view.at])[view.head]
    word = next((word for word in scene.needed if word.head == name), None)
    if word is not None:
        place, layer = word.view, scene.layer(word.view)
        reader = token_name(layer.queries[place.query])
        gives = f": {reader} gives it {scene.row(place)[place.key]:.2f}" if layer.is_kept else ""
        costs = f"  without {word.word} the answer loses {word.bits:.1f} bits"
        costs += "" if kind is NO_KIND else f" · else {name} {kind.does}"
        return [line(f"{name} brings {word.word}{gives}", width, BOLD), line(costs, width)]
    if out is None:
        return [line(f"{name} {kind.does}", width, BOLD), []]
    reads: Line = []
    if out.strongest is not None:
        query, key, number = out.strongest
        layer = scene.layer(view)
        names = short_label(layer.queries, query), short_label(layer.keys, key)
        reads = line(f"strongest: query {names[0]} gives key {names[1]} {number:.2f}", width)
        reads = [*reads, *_context(scene, view, query, width - cell_len(reads[0].text))]
    words = wrap(f"{name} {out.sentence}", max(width, 4), subsequent_indent="  ")
    return [*(line(each, width, BOLD) for each in words), reads]


def _context(scene: Scene, view: Viewpoint, query: int, room: int) -> Line:
    """The words before a query, and the query itself in brackets, in what is left of a line; nothing in little room."""
    queries, text = scene.layer(view).queries, scene.recording.prompt.text
    token = queries[query]
    if token.start is None or token.end is None or queries != scene.recording.prompt.tokens:
        return []
    before = " ".join(text[max(token.start - 60, 0) : token.start].split())
    gap = " " if text[max(token.start - 1, 0) : token.start].isspace() else ""
    shown = f"{before}{gap}[{' '.join(text[token.start : token.end].split())}]"
    if room < 18 or not shown.isprintable():
        return []
    while cell_len(shown) > room - 6:
        shown = shown[1:]
    return [Segment("  ·  ", DIM), Segment(shown, DIM)]


def _status(scene: Scene, view: Viewpoint) -> list[str]:
    groups, layer, parts = scene.layer(view).place.groups, scene.layer(view), list[str]()
    shared = f" · kv head {groups[view.head]}" if len(set(groups)) < len(groups) else ""
    for each in scene.statistics:
        values = layer.statistics.get(each.name)
        if values is not None and not np.isnan(values[view.head]):
            parts.append(f"{each.heading.replace(' (bits)', '')} {values[view.head]:.{each.digits}f}")
    return [scene.title(view) + shared, *parts]
