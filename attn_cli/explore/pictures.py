"""Pictures that panes ask of a recording: at once where that is little, else blank until a thread has done it."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attn_cli.explore.grids import Grid
from attn_cli.explore.window import MatrixWindow

AT_ONCE = 2**19  # cells that are computed while somebody waits: some milliseconds
_KEPT = 24  # pictures


@dataclass(frozen=True, eq=False)
class Picture:
    """Numbers of drawn cells `[down, across]`, NaN where all is masked, or not computed yet."""

    values: np.ndarray
    is_computed: bool = True


class Asked(NamedTuple):
    """The part of a matrix that a pane shows, its weights or its scores."""

    grid: Grid
    window: MatrixWindow
    scores: bool


class Pictures:
    """The latest pictures, and the one `wanted` on the screen that has still to be computed."""

    def __init__(self) -> None:
        self.wanted: Asked | None = None
        self._kept: OrderedDict[Asked, Picture] = OrderedDict()

    def picture(self, asked: Asked) -> Picture:
        """The numbers of what is asked; blank until its picture is kept."""
        window = asked.window
        if asked in self._kept:
            self._kept.move_to_end(asked)
        elif (window.bottom - window.top) * (window.right - window.left) <= AT_ONCE:
            self.keep(asked, Picture(_strip(asked, window.top, window.bottom)))
        else:
            self.wanted = asked
            return Picture(np.full(window.shape, np.nan), is_computed=False)
        return self._kept[asked]

    def keep(self, asked: Asked, picture: Picture) -> None:
        """Keep a picture for whoever asks next."""
        self._kept[asked] = picture
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)


def computed(asked: Asked, is_seen: Callable[[], bool]) -> Picture | None:
    """The picture of what is asked, in strips of whole cells, in any thread; None where it is no longer seen."""
    window, strips = asked.window, []
    rows = window.form.rows
    rows *= max(AT_ONCE // (rows * (window.right - window.left)), 1)
    for top in range(window.top, window.bottom, rows):
        if not is_seen():
            return None
        strips.append(_strip(asked, top, min(top + rows, window.bottom)))
    return Picture(np.concatenate(strips))


def _strip(asked: Asked, top: int, bottom: int) -> np.ndarray:
    form, keys = asked.window.form, slice(asked.window.left, asked.window.right)
    return asked.grid.pooled(slice(top, bottom), keys, (form.rows, form.keys), scores=asked.scores)
