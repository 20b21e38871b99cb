"""The text itself, each token coloured by what the token under the cursor gives it, or by what it gives that one."""

import numpy as np
from rich.segment import Segment
from rich.style import Style

from attn_cli.explore.panes.lines import CURSOR, Line, cell_line, filled, line, parts_line, short_label
from attn_cli.explore.scene import MARKED_SHARE, Scene, Size
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.summaries.sinks import expected_sinks
from attn_cli.text import counted
from attn_cli.views.drawing.bars import bar, bar_style
from attn_cli.views.drawing.cells import BOLD, DIM, PLAIN, fit
from attn_cli.views.drawing.image import half_blocks
from attn_cli.views.drawing.palette import Ramp, ramp_for
from attn_cli.views.drawing.segments import cell_style, steps_of
from attn_cli.views.drawing.text_layout import TextLayout

_LABEL = 22
_LEAST_SPLIT = 5  # lines of the text, to be seen in two places
_STEPS = 16  # of colours: behind words nobody sees finer ones, and a move changes fewer of them
_NOTHING = 0.1  # of the ramp: on the square root's scale a hundredth of the largest weight
_HEAVY = Style(bold=True, underline=True)


def draw(scene: Scene, view: Viewpoint, size: Size) -> list[Line]:
    """The pane: title, text, rule, the heaviest tokens as a table, the sum of the others, the cell under the cursor."""
    row, image = scene.row(view), scene.patches(view)
    ramp = ramp_for(row[None] if image is None else row[image[0]], "weights", view.scale, light=scene.screen.light)
    places = scene.heaviest(view, scene.text_lines(view)[1]).tolist()
    width = size.width if image is None else size.width - image[1] * image[0].shape[1] - 2
    lines = [*_text(scene, view, row, ramp), [Segment("─" * width, DIM)]]
    lines += table(scene, view, row, places, width)
    lines = lines if image is None else _beside_image(scene, view, ramp.levels(row[image[0]]), *image, lines)
    title = parts_line(_title(scene, view, ramp), size.width, BOLD)
    return [*filled([title, *lines], size.height - 1), cell_line(scene, view, size.width)]


def _beside_image(
    scene: Scene, view: Viewpoint, levels: np.ndarray, patches: np.ndarray, side: int, lines: list[Line]
) -> list[Line]:
    """The lines beside the image, whose patches are lit by their weights."""
    assert scene.recording.prompt.picture is not None
    marked = np.argwhere(patches == view.partner)[:1].ravel().tolist()
    image = half_blocks(scene.recording.prompt.picture, levels, side, marked, scene.screen)
    blank, height = [Segment(" " * (side * patches.shape[1]))], max(len(image), len(lines))
    pairs = zip(filled(image, height), filled(lines, height), strict=True)
    return [[*(lit or blank), Segment("  "), *text] for lit, text in pairs]


def pointed(scene: Scene, view: Viewpoint, size: Size, x: int, y: int) -> Viewpoint | None:
    """The viewpoint on the token at column x and line y of the pane (text or table); None without one."""
    text_lines, table_lines = scene.text_lines(view)
    image = scene.patches(view)
    left = 0 if image is None else image[1] * image[0].shape[1] + 2  # of the words
    token = scene.layout(view).token_at(_seen(scene, view)[y - 1], x - left) if 0 < y <= text_lines else None
    if image is not None and x < left - 2:
        row = 2 * (y - 1) // image[1]
        token = int(image[0][row, x // image[1]]) if 0 <= row < len(image[0]) else view.subject
    if token is not None:
        return scene.on_heaviest(view.with_subject(token)) if scene.same_tokens(view) else view.with_partner(token)
    places = scene.heaviest(view, table_lines)
    return view.with_partner(int(places[y - 2 - text_lines])) if 0 <= y - 2 - text_lines < len(places) else None


def _seen(scene: Scene, view: Viewpoint) -> list[int]:
    """The numbers of the lines of the text that are seen: around cursor and key, -1 where they are far apart."""
    layout, (room, _) = scene.layout(view), scene.text_lines(view)
    own, other = (layout.line_of.get(token, 0) for token in (view.subject, view.partner))
    own = own if scene.same_tokens(view) else other
    seen = _around(own, room, layout)
    if other in seen or room < _LEAST_SPLIT or view.partner in expected_sinks(scene.layer(view)):
        return seen
    first, last = sorted([_around(other, room // 2, layout), _around(own, room - room // 2 - 1, layout)])
    return [*first, -1, *last] if first[-1] + 1 < last[0] else _around((own + other) // 2, room, layout)


def _around(number: int, room: int, layout: TextLayout) -> list[int]:
    first = min(max(number - room // 2, 0), max(len(layout.lines) - room, 0))
    return list(range(first, min(first + room, len(layout.lines))))


def _title(scene: Scene, view: Viewpoint, ramp: Ramp) -> list[str]:
    layer, scale = scene.layer(view), "linear" if view.scale == "row" else view.scale
    who, what = short_label(layer.queries, view.query), f"who attends to key {short_label(layer.keys, view.key)}"
    what = what if view.by_column else f"what query {who} attends to"
    return [scene.title(view), what, *["sinks hidden"] * view.hide_sinks, f"{scale} scale 0 to {ramp.high:.3g}"]


def _text(scene: Scene, view: Viewpoint, row: np.ndarray, ramp: Ramp) -> list[Line]:
    """The lines of the text that are seen."""
    lines, levels = scene.layout(view).lines, ramp.levels(row[None])[0]
    steps = steps_of(levels, steps=_STEPS)

    def style_of(token: int) -> Style:
        if token < 0:
            return PLAIN
        if scene.same_tokens(view) and token == view.subject:
            return CURSOR
        style, weight = PLAIN, float(row[token])
        if weight != weight:
            style = DIM
        elif scene.screen.depth not in ("truecolor", "256"):  # no colour says it
            style = _HEAVY if weight >= MARKED_SHARE else PLAIN
        elif levels[token] >= _NOTHING:
            style = cell_style(int(steps[token]), ramp, scene.screen)
        return style + _HEAVY if token == view.partner else style

    return [
        [Segment("…", DIM)] if at < 0 else [Segment(piece.text, style_of(piece.token)) for piece in lines[at]]
        for at in _seen(scene, view)
    ]


def table(scene: Scene, view: Viewpoint, row: np.ndarray, places: list[int], width: int) -> list[Line]:
    """A line for each token at `places`, with its weight in a row, the cursor's marked; one for what is left."""
    tokens, most = scene.text_tokens(view), max((float(row[place]) for place in places), default=1.0)
    room, lines, digits = max(min(40, width - _LABEL - 16), 4), list[Line](), 3 if most >= 0.01 else 5
    for place in places:
        mark, style = ("▶", BOLD) if place == view.partner else (" ", PLAIN)
        text = f"{mark} {fit(short_label(tokens, place, _LABEL), _LABEL)} {row[place]:7.{digits}f}  "
        lines.append([Segment(text, style), Segment(bar(float(row[place]), room, most), bar_style(scene.screen.depth))])
    return [*lines, line(_rest(view, row, places), width, DIM)]


def _rest(view: Viewpoint, row: np.ndarray, places: list[int]) -> str:
    """What the tokens that aren't listed have together, and with sinks hidden what these have."""
    finite, noun = np.isfinite(row), "row" if view.by_column else "key"
    others = finite.copy()
    others[places] = False
    words = f"rest {row[others].sum():.3f} on {counted(int(others.sum()), noun)}"
    words = words if others.any() else f"all {counted(int(finite.sum()), noun)}"
    missing = 1 - float(row[finite].sum())
    is_told = view.hide_sinks and not view.by_column and missing > 5e-4
    return f"{words} · hidden or sink {missing:.3f}" if is_told else words
