"""Heat maps beside each other, where a terminal has room for more than one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from rich.cells import cell_len
from rich.console import RenderableType
from rich.segment import Segment, Segments

from attn_cli.views.drawing.cells import joined
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
        across = _across(alike, screen)
        narrow = replace(screen, width=(screen.width - _GAP * (across - 1)) // across)
        for start in range(0, len(alike), across):
            yield ""
            row = [replace(each, screen=narrow) if across > 1 else each for each in alike[start : start + across]]
            yield row[0] if across == 1 else _beside(row, narrow.width)


def _across(maps: Sequence[HeatMap], screen: Screen) -> int:
    if len(maps) == 1:
        return 1
    most = (screen.width + _GAP) // (max(maps[0].width, _NARROWEST) + _GAP)
    return max(1, min(most, len(maps)))


def _beside(maps: Sequence[HeatMap], width: int) -> Segments:
    """Maps side by side, `width` columns each: empty lines below shorter titles put cells at one height."""
    deepest = max(each.title_lines for each in maps)
    empty, parts, shown = list[Segment](), [each.lines() for each in maps], list[Segment]()
    for each, part in zip(maps, parts, strict=True):
        part[each.title_lines : each.title_lines] = [empty] * (deepest - each.title_lines)
    for number in range(max(map(len, parts))):
        for at, part in enumerate(parts):
            line = part[number] if number < len(part) else empty
            shown += joined(line)
            if at < len(parts) - 1:
                shown.append(Segment(" " * (width + _GAP - sum(cell_len(segment.text) for segment in line))))
        shown.append(Segment.line())
    return Segments(shown)
