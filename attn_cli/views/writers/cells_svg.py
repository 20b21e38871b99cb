"""Lines of a screen as an SVG image in which every text stands at its cells, whatever the font's width."""

import re
from collections.abc import Iterator, Sequence
from html import escape

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme

LIGHT = TerminalTheme(
    (255, 255, 255),
    (30, 30, 30),
    [(0, 0, 0), (178, 34, 34), (0, 110, 60), (150, 90, 0), (20, 80, 170), (130, 40, 130), (0, 110, 120), (90, 90, 90)],
)
DARK = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
)
COLUMN, ROW, SIZE = 10.0, 20.0, 16  # a cell and its letters, in pixels
_MARGIN = 12.0
_LONG = 14  # cells; a longer text begins at its first cell, a shorter one is centred on its cells
_BLOCKS = {"█": (0.0, 1.0), "▀": (0.0, 0.5), "▄": (0.5, 0.5)}  # top and height of what is filled
_DIM = 0.62  # opacity
# texts within a segment: parted by two blanks, or by one between numbers or marks
_TEXT = re.compile(r"\S+(?:(?:(?<![\d.·]) | (?![\d.·-]))\S+)*")


def svg_of(lines: Sequence[Sequence[Segment]], theme: TerminalTheme) -> str:
    """An SVG of lines of Rich segments as a terminal shows them, on the theme's background, as wide as the widest."""
    columns = max((sum(cell_len(part.text) for part in line) for line in lines), default=1)
    width, height = columns * COLUMN + 2 * _MARGIN, len(lines) * ROW + 2 * _MARGIN
    body = "\n".join(part for row, line in enumerate(lines) for part in _line(line, row * ROW, theme))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-size="{SIZE}" '
        f'font-family="ui-monospace, Menlo, Consolas, &quot;DejaVu Sans Mono&quot;, monospace" xml:space="preserve">\n'
        f'<rect width="100%" height="100%" fill="{theme.background_color.hex}"/>\n'
        f'<g transform="translate({_MARGIN:g}, {_MARGIN:g})">\n{body}\n</g>\n</svg>\n'
    )


def _line(line: Sequence[Segment], top: float, theme: TerminalTheme) -> Iterator[str]:
    at = 0
    for segment in line:
        style = _plain(segment.style or Style.null(), theme)
        width = cell_len(segment.text)
        if style.bgcolor is not None and width:
            yield _rect(at, width, top, ROW, style.bgcolor.get_truecolor(theme, foreground=False).hex)
        yield from _texts(segment.text, at, top, style, theme)
        at += width


def _plain(style: Style, theme: TerminalTheme) -> Style:
    if not style.reverse:
        return style
    text = theme.background_color if style.bgcolor is None else style.bgcolor.get_truecolor(theme, foreground=False)
    behind = theme.foreground_color if style.color is None else style.color.get_truecolor(theme)
    return Style(color=Color.from_triplet(text), bgcolor=Color.from_triplet(behind), bold=style.bold)


def _texts(text: str, at: int, top: float, style: Style, theme: TerminalTheme) -> Iterator[str]:
    """The blocks of a segment as rectangles, its texts as texts."""
    color = theme.foreground_color if style.color is None else style.color.get_truecolor(theme)
    for run in re.finditer(r"([█▀▄])\1*", text):
        above, height = _BLOCKS[run[1]]
        yield _rect(at + cell_len(text[: run.start()]), len(run[0]), top + above * ROW, height * ROW, color.hex)
    look = ' font-weight="bold"' if style.bold else ""
    look += ' text-decoration="underline"' if style.underline else ""
    look += f' opacity="{_DIM}"' if style.dim else ""
    for match in _TEXT.finditer(re.sub("[█▀▄]", " ", text)):
        first, width = at + cell_len(text[: match.start()]), cell_len(match[0])
        baseline = top + 0.75 * ROW
        if width > _LONG:
            place = f'x="{first * COLUMN:g}" textLength="{width * COLUMN:g}" lengthAdjust="spacingAndGlyphs"'
        else:
            place = f'x="{(first + width / 2) * COLUMN:g}" text-anchor="middle"'
        yield f'<text {place} y="{baseline:g}" fill="{color.hex}"{look}>{escape(match[0])}</text>'


def _rect(column: int, width: int, top: float, height: float, color: str) -> str:
    return (
        f'<rect x="{column * COLUMN:g}" y="{top:g}" width="{width * COLUMN:g}" height="{height:g}" '
        f'fill="{color}" shape-rendering="crispEdges"/>'
    )
