"""Lines of a pane: segments that never are wider than it, each with a style; a ramp of colours among them."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from attn_cli.views.drawing.cells import DIM, PLAIN, fit
from attn_cli.views.drawing.palette import SHADES, Ramp, background, foreground
from attn_cli.views.drawing.screen import Screen

Line = list[Segment]
REVERSED = Style(reverse=True)
CURSOR = Style(bold=True, reverse=True)
_CELLS = 8  # of a ramp


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
