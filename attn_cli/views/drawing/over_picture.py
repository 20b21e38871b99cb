"""A map of an image on a terminal that shows pictures: its cells on the image itself."""

from dataclasses import dataclass

import numpy as np
from rich.color import Color, ColorSystem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from attn_cli.views.drawing.cells import joined
from attn_cli.views.drawing.film import over_picture
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.palette import Ramp, ramp_for
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import DIM
from attn_cli.views.graphics.graphics import Graphics

_STEPS = 16
_GREY = np.full((1, _STEPS, 3), 0x88, np.uint8)  # of a picture that is neither light nor dark
_TALLEST = 24  # lines of a picture below numbers
_SYSTEMS = {"16": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT, "truecolor": ColorSystem.TRUECOLOR}


@dataclass(frozen=True, eq=False)
class MapOverPicture:
    """A map of weights over the patches of an image, drawn as a picture: the image in grey, colours over it.

    It stands in the place of cells that are colours alone, and below those with numbers.

    map       the weights by patch
    below     the pixels of the image `[h, w, 3]`
    graphics  how the terminal shows pictures
    """

    map: HeatMap
    below: np.ndarray
    graphics: Graphics

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines of the map, the picture among or below them, and its colours."""
        for line in self.lines():
            yield from joined(line)
            yield Segment.line()

    def lines(self) -> list[list[Segment]]:
        """The map's lines as segments, with blanks where the picture goes, or blank lines below a map with numbers.

        The last line draws the picture over the lines above it, then says what its colours mean.
        """
        drawn, first = self.map.lines(), self.map.title_lines + 1
        columns, lines = self.map.cell_columns, self.map.cell_lines
        if self.map.has_numbers:
            columns, lines = self._extent(columns)
            above = [*drawn, *([[Segment(" " * columns)]] * lines)]
        else:
            blank = Segment(" " * columns)
            above = [*drawn[:first], *([blank, line[-1]] for line in drawn[first : first + lines])]
        ramp = ramp_for(self.map.values, self.map.kind, self.map.scale, light=True)
        pixels = over_picture(self.below, ramp.levels(self.map.values), ramp, *self.graphics.size(columns, lines))
        return [*above, [self.graphics.above(pixels, columns, lines), *_colors(ramp, self.map.screen)]]

    def _extent(self, columns: int) -> tuple[int, int]:
        """Columns and lines of the picture in its own shape, as wide as so many columns; narrower if it is tall."""
        (height, width), (across, down) = self.below.shape[:2], self.graphics.cell
        lines = round(columns * across * height / width / down)
        if lines <= _TALLEST:
            return columns, max(lines, 1)
        return max(round(_TALLEST * down * width / height / across), 1), _TALLEST


def _colors(ramp: Ramp, screen: Screen) -> list[Segment]:
    """The colours of the film on grey from low to high, with numbers at the ends, and the scale."""
    places = np.linspace(0, 1, _STEPS)[None]
    bar = [
        Segment(" ", Style(bgcolor=Color.from_rgb(*color).downgrade(_SYSTEMS[screen.depth])))
        for color in over_picture(_GREY, places, ramp, 1, _STEPS)[0].tolist()
    ]
    by_row = ramp.scale == "row" and not ramp.diverging
    low, high = ("0", "each row's maximum") if by_row else (f"{ramp.low:z.3g}", f"{ramp.high:z.3g}")
    scale = "linear" if ramp.diverging else ramp.scale
    return [Segment(f"{low} ", DIM), *bar, Segment(f" {high}  {scale} scale, on the picture", DIM)]
