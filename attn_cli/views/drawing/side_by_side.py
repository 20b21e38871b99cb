"""Heat maps beside each other, where a terminal has room for more than one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table

from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.screen import Screen

_GAP = 3  # columns between two maps
_NARROWEST = 30  # columns of a map's title, in lines that break between its parts


def arranged(maps: Sequence[HeatMap], screen: Screen) -> Iterator[RenderableType]:
    """Maps with an empty line above each: in files and pipes one below the other, on a terminal side by side."""
    if screen.height is None:
        yield from (part for each in maps for part in ("", each))
        return
    for _, group in groupby(maps, key=lambda each: each.values.shape):
        alike = list(group)
        across = max(1, min((screen.width + _GAP) // (max(alike[0].width, _NARROWEST) + _GAP), len(alike)))
        narrow = replace(screen, width=(screen.width - _GAP * (across - 1)) // across)
        for start in range(0, len(alike), across):
            yield ""
            row = [replace(each, screen=narrow) if across > 1 else each for each in alike[start : start + across]]
            yield row[0] if across == 1 else _beside(row, narrow.width)


def _beside(maps: Sequence[HeatMap], width: int) -> Table:
    """Maps side by side, `width` columns each: shorter titles stand lower, so that cells are at one height."""
    deepest, grid = max(each.title_lines for each in maps), Table.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
    for _ in maps:
        grid.add_column(width=width)
    grid.add_row(*(Group(*[""] * (deepest - each.title_lines), each) for each in maps))
    return grid
