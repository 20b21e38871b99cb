"""Lines of a pane, never wider than it: words, names of tokens, the cell under the cursor, a ramp of colours."""

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.prompt import Token, later_pieces
from attn_cli.views.drawing.cells import DIM, PLAIN, fit
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.palette import SHADES, Ramp, background, foreground
from attn_cli.views.drawing.screen import Screen

Line = list[Segment]
REVERSED = Style(reverse=True)
CURSOR = Style(bold=True, reverse=True)
_CELLS = 8  # of a ramp
_TOKEN_COLUMNS = 24
_NARROW = 60  # columns under which a line has no room for words that the pane says anyway


def line(text: str, width: int, style: Style = PLAIN) -> Line:
    """One line of text, cut with an ellipsis where it is too long."""
    return [Segment(text if text.isascii() and len(text) <= width else fit(text, width).rstrip(), style)]


def parts_line(parts: Sequence[str], width: int, style: Style = PLAIN, between: str = " · ") -> Line:
    """As many of the parts as fit, the first one in any case, joined by `between`."""
    text = parts[0] if parts else ""
    for part in parts[1:]:
        if cell_len(text) + cell_len(between) + cell_len(part) > width:
            break
        text += between + part
    return line(text, width, style)


def status_line(parts: Sequence[str], width: int, between: str = " · ") -> Line:
    """As many of the parts as fit, in a reversed line that is filled with blanks."""
    return [Segment(fit(parts_line(parts, width, between=between)[0].text, width), REVERSED)]


def filled(lines: list[Line], height: int) -> list[Line]:
    """Exactly `height` lines: cut, or with empty ones below."""
    return [*lines[:height], *([[]] * (height - len(lines)))]


def with_ramp(parts: Line, ramp: Ramp, ends: tuple[str, str], width: int, screen: Screen) -> Line:
    """The line `parts`, followed by the colours of a scale from its lowest to its highest, between the words `ends`."""
    if screen.depth in ("truecolor", "256"):
        bar = [Segment(" ", background(at / (_CELLS - 1), ramp, screen.depth)) for at in range(_CELLS)]
    else:
        levels = [(at + 0.5) / len(SHADES) for at in range(1, len(SHADES))]
        bar = [
            Segment(mark, foreground(level, ramp, screen.depth)) for mark, level in zip(SHADES[1:], levels, strict=True)
        ]
    drawn = [Segment(f"  {ends[0]} ", DIM), *bar, Segment(f" {ends[1]}", DIM)]
    return [*parts, *drawn] if Segment.get_line_length([*parts, *drawn]) <= width else parts


def short_label(tokens: Sequence[Token], at: int, columns: int = _TOKEN_COLUMNS) -> str:
    """A token with its number, cut to `columns` columns; a later piece of a character has a point: "3 語∙"."""
    mark = "∙" if later_pieces(tokens[max(at - 3, 0) : at + 1])[-1] else ""
    return fit(token_label(tokens[at]).replace("\n", "␊") + mark, columns).rstrip()


def cell_line(scene: Scene, view: Viewpoint, width: int) -> Line:
    """The cell under the cursor, in a reversed line: both tokens, the weight, in a single head its score and rank."""
    narrow = width < _NARROW
    layer, columns = scene.layer(view), _TOKEN_COLUMNS // 2 if narrow else _TOKEN_COLUMNS
    query, key = short_label(layer.queries, view.query, columns), short_label(layer.keys, view.key, columns)
    names = f"{query} -> {key}" if narrow else f"query {query} -> key {key}"
    cell = slice(view.query, view.query + 1), slice(view.key, view.key + 1)
    if np.isnan(scene.grid(view).cells(*cell)[0, 0]):
        return status_line([names, "hidden" if bool(layer.allowed(*cell)[0, 0]) else "masked"], width)
    terms = layer.terms(view.head, view.query, view.key)
    seen = int(layer.allowed(cell[0], slice(None)).sum())
    score = [] if terms.score is None else [f"score {terms.score:.2f}"]
    rank = [] if terms.rank is None else [f"rank {terms.rank:,} of {seen:,}"]
    after = view.query + 1
    is_written = after < layer.n and layer.queries[after].generated
    written = [f"generated {short_label(layer.queries, after)}"] if is_written else []
    return status_line([names, f"weight {terms.weight:.4f}", *written, *score, *rank], width)
