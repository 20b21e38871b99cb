"""The regions of the panes on a screen: one alone on a small screen, several beside and below it on a large one."""

from typing import NamedTuple

from attn_cli.explore.pane_table import on_side
from attn_cli.explore.viewpoint import Viewpoint

WIDE = (140, 40)  # columns and lines from which heads, matrix and text are seen at once
TALL = (80, 34)  # from which the text is seen below the pane that has the keys
_HEADS_SHARE = 0.36  # of the columns of a wide screen
_TEXT_SHARE = 0.36  # of its lines


class Region(NamedTuple):
    """A part of the screen: its first column x and line y, from 0, its width in columns and height in lines."""

    x: int
    y: int
    width: int
    height: int


def is_wide(width: int, height: int) -> bool:
    """True for a screen of 140 columns and 40 lines or more, which shows heads, matrix and text at once."""
    return width >= WIDE[0] and height + 1 >= WIDE[1]


def regions(width: int, height: int, view: Viewpoint) -> dict[str, Region]:
    """The places of the drawn panes by name: the one with the keys, and on a large screen others."""
    pane, is_tall = view.pane, width >= TALL[0] and height + 1 >= TALL[1]
    if not (is_wide(width, height) or is_tall) or (pane == "heads" and view.thumbnails and not view.sorted):
        return {pane: Region(0, 0, width, height)}
    if not is_wide(width, height):
        below = round(height * _TEXT_SHARE)
        lower = on_side("bottom", pane)
        upper = on_side("middle", pane) if pane == lower else pane
        return {upper: Region(0, 0, width, height - below), lower: Region(0, height - below, width, below)}
    left, bottom = round(width * _HEADS_SHARE), round(height * _TEXT_SHARE)
    return {
        on_side("left", pane): Region(0, 0, left, height - bottom),
        on_side("middle", pane): Region(left + 2, 0, width - left - 2, height - bottom),
        on_side("bottom", pane): Region(0, height - bottom, width, bottom),
    }
