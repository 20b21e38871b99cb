"""Bars: a number as a length."""

from rich.color import Color, ColorSystem
from rich.style import Style
from rich.text import Text

from attn_cli.views.drawing.cells import fit
from attn_cli.views.drawing.screen import Screen

_COLOR = Color.parse("#44708c")  # darker than what maps show as large
_CYAN = 6
_SYSTEMS = {"truecolor": ColorSystem.TRUECOLOR, "256": ColorSystem.EIGHT_BIT}


def bar(value: float, width: int, longest_value: float = 1.0) -> str:
    """A bar of `width` columns for `longest_value`, of none for 0 and below and for NaN."""
    return "█" * round(width * value / longest_value if value > 0 and longest_value > 0 else 0)


def signed_bar(value: float, width: int, longest_value: float = 1.0) -> str:
    """A bar whose length is the magnitude of a value, in full blocks for a positive value, light for a negative one."""
    return bar(value, width, longest_value) or "░" * len(bar(-value, width, longest_value))


def bar_line(label: str, label_width: int, value: float, screen: Screen, longest_value: float = 1.0) -> Text:
    """`bank  0.620  ████`: a label in `label_width` columns, the value, and a bar that is full at `longest_value`."""
    width = max(4, min(40, screen.width - label_width - 12))  # columns of a full bar
    line = Text("  ").append(fit(label, label_width)).append(f" {value:6.3f}  ")
    return line.append(bar(value, width, longest_value), bar_style(screen.depth))


def bar_style(depth: str) -> Style:
    """The colour of bars on a screen of `depth` "truecolor", "256" or "16"; no colour for "none"."""
    if depth == "16":
        return Style(color=Color.from_ansi(_CYAN))
    return Style(color=_COLOR.downgrade(_SYSTEMS[depth])) if depth in _SYSTEMS else Style.null()
