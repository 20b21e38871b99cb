"""The text in a cell of a heat map: its number, else a shade; marks for what is masked, 0 or no number."""

from dataclasses import dataclass
from math import isfinite

from attn_cli.views.drawing.palette import Ramp, shade
from attn_cli.views.drawing.screen import Screen

ZEROS_MARKED = ("weights", "change")  # kinds of which a 0 is a mark, so that the other numbers stand out


@dataclass(frozen=True, eq=False)
class CellText:
    """Makes the text of every cell of a heat map.

    kind    what the map's numbers are: "weights", "scores", "output" ...
    width   the columns of a cell
    number  the format of its number, such as ".2f", or "hundredths" for whole hundredths; "" for none
    image   whether cells are patches of an image, of which none is masked
    """

    kind: str
    width: int
    number: str
    ramp: Ramp
    screen: Screen
    image: bool = False

    def of(self, value: float, level: float) -> str:
        """The text of the cell of a value; `level` is the value's place on the colour scale, 0 to 1."""
        width, number = self.width, self.number
        if value == float("-inf") and self.kind == "weights":
            return " " * width
        if (value == float("-inf") and self.has_masked) or (number and value == 0 and self.kind in ZEROS_MARKED):
            return self.mark.rjust(width)
        if not isfinite(value):
            return ("?" if width < 4 else f"{value}").rjust(width)
        if number == "hundredths":
            return ("1." if round(value * 100) >= 100 else str(round(value * 100))).rjust(width)
        if number:
            return f"{value:{number}}".rjust(width)
        if self.screen.depth in ("16", "none"):
            return self._shade(level) * width
        return " " * width

    def _shade(self, level: float) -> str:
        """The shade of a level; of weights the lowest is a mark, for a blank is a masked cell."""
        drawn = shade(level, self.ramp, ascii_only=self.screen.ascii_only)
        return self.lowest if drawn == " " else drawn

    @property
    def lowest(self) -> str:
        """The character of the lowest level of the colour scale: blank, but a mark where a blank is a masked weight."""
        if self.kind != "weights" or self.image:
            return " "
        return "-" if self.screen.ascii_only else "·"  # in ASCII, a dot is a shade

    @property
    def has_masked(self) -> bool:
        """True if -inf is a masked cell: so in all maps but those of outputs of attention."""
        return self.kind != "output"

    @property
    def mark(self) -> str:
        """The mark of a masked cell, and of a weight of exactly 0."""
        if self.screen.ascii_only:
            return "." if self.number else "x"  # in ASCII, a dot is already a shade
        return "·"
