"""A ramp of colours from low to high, and the panes by their keys, for the first lines of panes."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment

from attn_cli.explore.pane_table import NAMES
from attn_cli.explore.panes.lines import BOLD, DIM, PLAIN, REVERSED, Line, width_of
from attn_cli.views.drawing.palette import SHADES, Ramp, background, foreground
from attn_cli.views.drawing.screen import Screen

_CELLS = 8


def with_ramp(parts: Line, ramp: Ramp, ends: tuple[str, str], width: int, screen: Screen) -> Line:
    """The line `parts`, followed by the colours of a scale from its lowest to its highest, between the words `ends`."""
    drawn = [Segment(f"  {ends[0]} ", DIM), *_bar(ramp, screen), Segment(f" {ends[1]}", DIM)]
    return [*parts, *drawn] if width_of(parts) + width_of(drawn) <= width else parts


def _bar(ramp: Ramp, screen: Screen) -> Line:
    if screen.depth in ("truecolor", "256"):
        return [Segment(" ", background(at / (_CELLS - 1), ramp, screen.depth)) for at in range(_CELLS)]
    return [
        Segment(mark, foreground((at + 0.5) / len(SHADES), ramp, screen.depth)) for at, mark in enumerate(SHADES) if at
    ]


def with_panes(first: Line, pane: str, width: int) -> Line:
    """A pane's first line with the names and keys of all panes at its right end, those of `pane` reversed."""
    for names in ([f" {at} {name} " for at, name in enumerate(NAMES, 1)], [f" {at + 1} " for at in range(len(NAMES))]):
        room = width - width_of(first) - sum(map(len, names))
        if room >= 1:
            return [*first, Segment(" " * room, PLAIN), *_keys(names, pane)]
    return first


def _keys(names: Sequence[str], pane: str) -> Line:
    return [Segment(name, REVERSED if each == pane else DIM) for each, name in zip(NAMES, names, strict=True)]


def with_key(first: Line, pane: str, width: int, *, is_seen: bool) -> Line:
    """The first line of a pane beside others, after its key, which is reversed if `is_seen`: it has the keyboard."""
    text = "".join(part.text for part in first)
    while cell_len(text) > width - 4 and " · " in text:
        text = text.rpartition(" · ")[0]
        first = [Segment(text, BOLD)]
    tag = Segment(f" {NAMES.index(pane) + 1} ", REVERSED if is_seen else DIM)
    return [tag, Segment(" ", PLAIN), *first]
