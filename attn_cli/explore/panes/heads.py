"""All heads: a cell each, coloured where they stand out or by one number."""

from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap

import numpy as np
from rich.segment import Segment
from rich.style import Style

from attn_cli.explore.panes.heat import DOT, DOT_COLOR, heat_lines
from attn_cli.explore.panes.lines import CURSOR, Line, filled, line, parts_line, status_line, with_ramp
from attn_cli.explore.pictures import Picture
from attn_cli.explore.scene import JudgedHeads, Scene, Size
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.explore.window import CellForm, MatrixWindow, Space, window_at
from attn_cli.summaries.standing_out import NO_KIND, counts, families_of, named_kinds
from attn_cli.text import counted
from attn_cli.views.answers.story import token_name
from attn_cli.views.drawing.cells import BOLD, DIM, PLAIN
from attn_cli.views.drawing.labels import look_of
from attn_cli.views.drawing.palette import Ramp

_LABEL = 6  # columns before the first head
_HEADING = 2  # lines above the heads: title, ruler
_WIDEST = 7  # columns of a layer
_LISTED = 7  # lines below the map, where all heads have room above them
_GAPS = 2  # lines
_NAME = 16  # columns of a family's name and size
_WIDE = 100  # columns from which a family's line says what its heads do


def draw(scene: Scene, view: Viewpoint, size: Size) -> list[Line]:
    """The heads, coloured by kind or a statistic; the last line has the cursor's numbers."""
    judged, status = scene.shown_kinds(view), status_line(_status(scene, view), size.width, "  ")
    body = [_title(scene, view, judged, size.width), *_map(scene, view, judged, size)]
    body += _kinds(scene, view, scene.judge(), size, size.height - 1 - len(body)) if scene.outs else []
    return [*filled(body, size.height - 1), status]


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
    lines = max(min(most, max(room - _LISTED, room // 2)) if scene.outs else room, 1)
    columns = min(max((size.width - _LABEL) // len(layers), 1), _WIDEST)
    form = CellForm(1, 1, columns, most > lines and scene.screen.halves)
    space = Space(lines, max(size.width - _LABEL, 1), scene.screen.halves)
    down, across = space.capacity(form)
    corner = max(view.head - down // 2, 0), max(view.at - across // 2, 0)
    return window_at(form, (most, len(layers)), space, corner, (view.head, view.at))


def _title(scene: Scene, view: Viewpoint, judged: JudgedHeads | None, width: int) -> Line:
    """What the map shows of how much, and the ends of its scale."""
    layers, statistic, ramp = scene.recording.layers, scene.statistic(view), _numbers(scene, view, judged)[1]
    heads, ends = counted(sum(layer.h for layer in layers), "head"), ("0", "1")
    if judged is None:
        heads += f" by {statistic.heading.replace(' (bits)', '')}"
        ends = f"{ramp.low:.{statistic.digits}f}", f"{ramp.high:.{statistic.digits}f}"
    known = f"{len(scene.outs) or 'none'} standing out" if scene.is_judged else "finding kinds"
    parts = [heads, known, counted(len(layers), "layer"), counted(len(scene.recording.prompt.tokens), "token")]
    title = parts_line(parts, width - 12 - len("".join(ends)), BOLD)
    return with_ramp(title, ramp, ends, width, scene.screen)


def _numbers(scene: Scene, view: Viewpoint, judged: JudgedHeads | None) -> tuple[np.ndarray, Ramp]:
    """The numbers that colour heads `[heads, layers]`, and their scale."""
    values, low, high = scene.values(scene.statistic(view)), 0.0, 1.0
    if judged is None:
        finite = values[np.isfinite(values)]
        low, high = float(finite.min()), float(finite.max())
    else:
        values = np.full(values.shape, np.nan)
        for out in judged.outs:
            values[out.at, out.call] = out.weight
    return values, Ramp(low, high if high > low else low + 1, light=scene.screen.light)


def _map(scene: Scene, view: Viewpoint, judged: JudgedHeads | None, size: Size) -> list[Line]:
    """Layers across, heads down, under the numbers of layers and behind those of heads."""
    window, layers = _window(scene, view, size), scene.recording.layers
    form, heads = window.form, scene.layer(view).place.heads
    values, ramp = _numbers(scene, view, judged)
    picture = Picture(values[window.top : window.bottom, window.left : window.right])
    letters = {(out.at, out.call): look_of(not out.is_judged, out.kind)[0] for out in scene.outs}
    letters |= {(head, at): DOT for at, head, _ in scene.bringing}
    marks = {window.cell_of(*place): letter for place, letter in letters.items()}
    cells = heat_lines(picture, form, ramp, scene.screen, window.cell_of(view.head, view.at), marks)
    names = [str(layer.place.layer) for layer in layers[window.left : window.right]]
    every = -(-(max(map(len, names)) + 1) // form.columns)
    ruler = "".join(name.ljust(form.columns * every) for name in names[::every])
    lines: list[Line] = [[Segment("layer".ljust(_LABEL) + ruler[: size.width - _LABEL], DIM)]]
    for at, each in enumerate(cells):
        head = window.top + at * (2 if form.halves else 1)
        lines.append([Segment(f"{heads[head]:>4}  " if head < len(heads) else " " * _LABEL, DIM), *each])
    return lines


def _kinds(scene: Scene, view: Viewpoint, judged: JudgedHeads, size: Size, room: int) -> list[Line]:
    """The families of heads by name, and what the head under the cursor does."""
    width, own = size.width, _own(scene, view, judged, size.width)
    named = [((f"{DOT} answer", "bring words that it needs"), scene.bringing)] if scene.bringing else []
    for heads in families_of(judged.outs):
        kind, places = heads[0].kind, [(out.call, out.at, out.weight) for out in heads]
        named.append(((kind.words, kind.does), places))
    listed, families = room - len(own), list[Line]()
    for number, (words, places) in enumerate(named, 1):
        spare = listed - len(families) - (len(named) - number + 1) - _GAPS
        families += _family(words, places, view, scene, width)[: max(spare, 1)]
    left = (words for words, *_ in counts(judged.summaries, judged.outs))
    families.append(parts_line(["others", *left], width, DIM))
    if len(families) > listed > 0:
        families = [*families[: listed - 1], families[-1]]
    gaps = min(max(listed - len(families), 0), _GAPS)
    return [*[[]] * (gaps > 0), *families[: max(listed, 0)], *[[]] * (gaps > 1), *own]


def _family(
    words: tuple[str, str], heads: Sequence[tuple[int, int, float]], view: Viewpoint, scene: Scene, width: int
) -> list[Line]:
    """A family's name, its heads with their weights, and what they do; the first line says it all, if it has room."""
    name, does = f"{words[0]} {len(heads)}", f"  {words[1]}" if width >= _WIDE else ""
    color = Style(color=DOT_COLOR) if name.startswith(DOT) else PLAIN
    lines: list[Line] = [[Segment(f"{name:{_NAME}}", BOLD + color)]]
    for at, head, weight in heads:
        text = f"{scene.head_label(at, head)} {weight:.2f}"
        if Segment.get_line_length(lines[-1]) + len(text) + 2 + len(does) > width:
            lines[-1].append(Segment(does, DIM))
            lines.append([Segment(" " * _NAME)])
            does = ""
        style = CURSOR if (at, head) == (view.at, view.head) else PLAIN
        lines[-1] += [Segment("  ", PLAIN), Segment(text, style)]
    lines[-1].append(Segment(does, DIM))
    return lines


def _own(scene: Scene, view: Viewpoint, judged: JudgedHeads, width: int) -> list[Line]:
    """The sentence on the head under the cursor, and the cell that enter opens; first the word that it brings."""
    name, named, gives = scene.head_label(view.at, view.head), scene.named(view), ""
    out = next((out for out in judged.outs if (out.call, out.at) == (view.at, view.head)), None)
    kind = named_kinds(judged.summaries[view.at])[view.head]
    if named is not None:
        (_, _, query, key), layer = named[0], scene.layer(view)
        weight = f" {scene.row(replace(view, query=query, by_column=False))[key]:.2f}" if layer.is_kept else ""
        gives = f"{token_name(layer.queries[query])} gives {token_name(layer.keys[key])}{weight}"
    if named is not None and named[1]:
        word, tells, *more = (piece["text"] for piece in named[1])
        more += [] if kind is NO_KIND else [f"· else {kind.does}"]
        return [line(f"{name}: {gives}", width, BOLD), parts_line([f"  {word} {tells}", *more], width, between=" ")]
    says = f"{name} {kind.does if out is None else out.sentence}"
    words = [says] if out is None else wrap(says, max(width, 4), subsequent_indent="  ")
    return [*(line(each, width, BOLD) for each in words), line(f"{'' if out is None else 'strongest: '}{gives}", width)]


def _status(scene: Scene, view: Viewpoint) -> list[str]:
    groups, layer, parts = scene.layer(view).place.groups, scene.layer(view), list[str]()
    shared = f" · kv head {groups[view.head]}" if len(set(groups)) < len(groups) else ""
    for each in scene.statistics:
        values = layer.statistics.get(each.name)
        if values is not None and not np.isnan(values[view.head]):
            parts.append(f"{each.heading.replace(' (bits)', '')} {values[view.head]:.{each.digits}f}")
    return [scene.title(view) + shared, *parts]
