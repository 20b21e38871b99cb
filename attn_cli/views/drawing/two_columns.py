"""Two columns of renderables, each drawn for its own screen, side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment

from attn_cli.views.drawing.screen import Screen

_LEFT = 80  # columns of the left of two
_GAP = 3
_LEAST_RIGHT = 76  # columns, with which there is room for two


def two_screens(screen: Screen) -> tuple[Screen, Screen] | None:
    """The left and the right part of a wide screen; None where there is no room for two.

    >>> left, right = two_screens(Screen(200)) or (None, None)
    >>> left.width, right.width, two_screens(Screen(120))
    (80, 117, None)
    """
    right = screen.width - _LEFT - _GAP
    if right < _LEAST_RIGHT:
        return None
    return replace(screen, width=_LEFT), replace(screen, width=right)


@dataclass(frozen=True)
class TwoColumns:
    """Renderables one below the other on the left, and on the right."""

    left: Sequence[RenderableType]
    right: Sequence[RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """The lines of both; the shorter one ends first."""
        right_width = options.max_width - _LEFT - _GAP
        left, right = (
            console.render_lines(Group(*column), options.update(width=width, height=None), pad=pad)
            for column, width, pad in ((self.left, _LEFT, True), (self.right, right_width, False))
        )
        nothing: list[Segment] = []
        for one, other in zip_longest(left, right, fillvalue=nothing):
            yield from one or [Segment(" " * _LEFT)]
            yield from [Segment(" " * _GAP), *other] if other else []
            yield Segment.line()
