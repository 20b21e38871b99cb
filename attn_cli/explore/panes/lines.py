"""Lines of a pane: segments that never are wider than it, each with a style."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from attn_cli.views.drawing.cells import fit

Line = list[Segment]
PLAIN = Style.null()
BOLD = Style(bold=True)
DIM = Style(dim=True)
REVERSED = Style(reverse=True)
CURSOR = Style(bold=True, reverse=True)
MARKED = {"truecolor": "#ff4fd8", "256": "color(206)"}  # the cursor's cell, by depth: in no map of colours


def line(text: str, width: int, style: Style = PLAIN) -> Line:
    """One line of text, cut with an ellipsis where it is too long."""
    return [Segment(text if text.isascii() and len(text) <= width else fit(text, width).rstrip(), style)]


def full_line(text: str, width: int, style: Style) -> Line:
    """One line of text, filled with blanks or cut to `width` columns, for a style that blanks show, such as reverse."""
    return [Segment(fit(text, width), style)]


def parts_line(parts: Sequence[str], width: int, style: Style = PLAIN, between: str = " · ") -> Line:
    """As many of the parts as fit, the first one in any case, joined by `between`."""
    text = parts[0] if parts else ""
    for part in parts[1:]:
        if cell_len(text) + cell_len(between) + cell_len(part) > width:
            break
        text += between + part
    return line(text, width, style)


def width_of(segments: Line) -> int:
    """The columns of a line."""
    return cell_len("".join([segment.text for segment in segments if not segment.control]))


def padded(segments: Line, width: int) -> Line:
    """The line in exactly `width` columns."""
    used = width_of(segments)
    if used > width:
        return Segment.adjust_line_length(segments, width, PLAIN)
    return [*segments, Segment(" " * (width - used), PLAIN)] if used < width else segments
