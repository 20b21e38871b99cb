"""The text itself, each token coloured by what the token under the cursor gives it, or by what it gives that one."""

from dataclasses import replace

import numpy as np
from rich.segment import Segment
from rich.style import Style

from attn_cli.explore.panes.lines import BOLD, CURSOR, DIM, PLAIN, Line, line, parts_line
from attn_cli.explore.panes.names import against_name, cell_line, head_name, short_label
from attn_cli.explore.regions import Region
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.text import counted
from attn_cli.views.drawing.bars import bar_style, signed_bar
from attn_cli.views.drawing.cells import fit
from attn_cli.views.drawing.palette import Ramp, ramp_for
from attn_cli.views.drawing.segments import cell_style, steps_of

_MARKED = 0.05
_LABEL = 22
_STEPS = 16  # of colours: behind words nobody sees finer ones, and a move changes fewer of them
_NOTHING = 0.1  # of the ramp: on the square root's scale a hundredth of the largest weight
_HEAVY = Style(bold=True, underline=True)


def draw(scene: Scene, view: Viewpoint, region: Region) -> list[Line]:
    """The pane: title, text, rule, the heaviest tokens as a table, the sum of the others, the cell under the cursor."""
    row, width = scene.row(view), region.width
    kind = "change" if view.difference and view.against else "weights"
    ramp = ramp_for(row[None], kind, view.scale, light=scene.screen.light)
    text_lines, table_lines = scene.text_lines(view)
    text = _text(scene, view, row, ramp, text_lines)
    table, rest = _table(scene, view, row, table_lines, width)
    rule = [Segment("─" * width, DIM)]
    status = cell_line(scene, view, width)
    lines = [parts_line(_title(scene, view, ramp), width, BOLD), *text, rule, *table, line(rest, width, DIM)]
    lines += [[]] * (region.height - 1 - len(lines))
    return [*lines[: region.height - 1], status]


def pointed(scene: Scene, view: Viewpoint, region: Region, x: int, y: int) -> Viewpoint | None:
    """The viewpoint on the token at column x and line y of the pane (text or table); None without one."""
    token = _token_at(scene, view, x, y)
    if token is not None and scene.same_tokens(view):
        return scene.on_heaviest(view.with_subject(token))
    partner = _key_at(scene, view, y) if token is None else token
    return None if partner is None else view.with_partner(partner)


def _token_at(scene: Scene, view: Viewpoint, x: int, y: int) -> int | None:
    return scene.layout(view).token_at(first_line(scene, view) + y - 1, x)


def _key_at(scene: Scene, view: Viewpoint, y: int) -> int | None:
    text_lines, table_lines = scene.text_lines(view)
    at = y - 2 - text_lines
    places = scene.heaviest(view, table_lines)
    return int(places[at]) if 0 <= at < len(places) else None


def first_line(scene: Scene, view: Viewpoint) -> int:
    """The index of the first line of the text that is seen: the cursor's token is in the middle, or near an end."""
    layout, (lines, _) = scene.layout(view), scene.text_lines(view)
    cursor = _cursor(scene, view)
    number = layout.line_of.get(cursor, 0)
    return min(max(number - lines // 2, 0), max(len(layout.lines) - lines, 0))


def _cursor(scene: Scene, view: Viewpoint) -> int:
    if scene.same_tokens(view):
        return view.key if view.by_column else view.query
    return view.query if view.by_column else view.key


def _title(scene: Scene, view: Viewpoint, ramp: Ramp) -> list[str]:
    grid = scene.grid(view)
    if view.by_column:
        what = f"who attends to key {short_label(grid.keys[view.key], scene)}"
    else:
        what = f"what query {short_label(grid.queries[view.query], scene)} attends to"
    ends = f"{ramp.low:.2g} to {ramp.high:.2g}" if ramp.diverging else f"{_scale(view)} scale 0 to {ramp.high:.3g}"
    change = ["change against " + against_name(scene, view)] if view.difference and view.against else []
    change += ["by value"] if scene.reads_values(view) else []
    change += ["sinks hidden"] if view.hide_sinks else []
    return [head_name(scene, view), what, *change, ends]


def _scale(view: Viewpoint) -> str:
    return "linear" if view.scale == "row" else view.scale


def _text(scene: Scene, view: Viewpoint, row: np.ndarray, ramp: Ramp, height: int) -> list[Line]:
    """The lines of the text around the cursor."""
    layout, first = scene.layout(view), first_line(scene, view)
    levels = ramp.levels(row[None])[0]
    steps, is_plain = steps_of(levels, steps=_STEPS), _near_nothing(levels, ramp)
    colours = not scene.says_shares
    own = _cursor(scene, view) if scene.same_tokens(view) else -1
    other = view.query if view.by_column else view.key
    lines: list[Line] = []
    for pieces in layout.lines[first : first + height]:
        segments: Line = []
        for piece in pieces:
            style = PLAIN
            if piece.token >= 0:
                weight = float(row[piece.token])
                if weight != weight:
                    style = DIM
                elif colours:
                    nothing = is_plain[piece.token]
                    style = PLAIN if nothing else cell_style(int(steps[piece.token]), ramp, scene.screen)
                elif abs(weight) >= _MARKED:
                    style = _HEAVY
                if piece.token == other:
                    style = style + Style(underline=True, bold=True)
                if piece.token == own:
                    style = CURSOR
            segments.append(Segment(piece.text, style))
        lines.append(segments)
    return lines


def _near_nothing(levels: np.ndarray, ramp: Ramp) -> np.ndarray:
    distance: np.ndarray = 2 * np.abs(levels - 0.5) if ramp.diverging else levels
    return distance < _NOTHING


def _table(scene: Scene, view: Viewpoint, row: np.ndarray, height: int, width: int) -> tuple[list[Line], str]:
    """The heaviest tokens with bars, and what the others have together."""
    tokens = scene.text_tokens(view)
    places = scene.heaviest(view, height).tolist()
    chosen = view.query if view.by_column else view.key
    compared = _compared(scene, view) if view.against is not None and not view.difference else None
    values = [float(row[place]) for place in places]
    room = max(min(40, width - _LABEL - 16 - (16 if compared is not None else 0)), 4)
    most = max((abs(value) for value in values), default=1.0)
    lines: list[Line] = []
    for place, value in zip(places, values, strict=True):
        mark = "▶" if place == chosen else " "
        number = f"{value:+.3f}" if view.difference and view.against else f"{value:.3f}"
        drawn = signed_bar(value, room, most)
        drawn = fit(drawn, room) if compared is not None else drawn
        style = BOLD if place == chosen else PLAIN
        text = f"{mark} {fit(short_label(tokens[place], scene, _LABEL), _LABEL)} {number:>7}  "
        there = ""
        if compared is not None:
            partner = compared.get(place)
            there = "   masked there" if partner is None else f"   there {partner:.3f}"
        lines.append([Segment(text, style), Segment(drawn, bar_style(scene.screen.depth)), Segment(there, style)])
    return lines, _rest(view, row, places)


def _rest(view: Viewpoint, row: np.ndarray, places: list[int]) -> str:
    finite = np.isfinite(row)
    others = finite.copy()
    others[places] = False
    if view.difference and view.against is not None:
        return f"{int(others.sum())} others change less"
    rest = float(row[others].sum()) if others.any() else 0.0
    said = [counted(int(some.sum()), "row" if view.by_column else "key") for some in (others, finite)]
    words = [f"rest {rest:.3f} on {said[0]}" if others.any() else f"all {said[1]}"]
    missing = 1 - float(row[finite].sum())
    if not view.by_column and view.hide_sinks and missing > 5e-4:
        words.append(f"hidden or sink {missing:.3f}")
    return " · ".join(words)


def _compared(scene: Scene, view: Viewpoint) -> dict[int, float]:
    change = scene.row(replace(view, difference=True))
    own = scene.row(view)
    both = np.flatnonzero(np.isfinite(change))
    return {int(place): float(own[place] + change[place]) for place in both}
