"""Pictures of a head's matrix that panes ask for: at once where that is little, else blank until a thread is done."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attn_cli.explore.window import MatrixWindow
from attn_cli.recording import RecordedLayer
from attn_cli.views.drawing.segments import blocks_of

AT_ONCE = 2**19  # cells that are computed while somebody waits: some milliseconds
_KEPT = 24  # pictures


@dataclass(frozen=True, eq=False)
class Grid:
    """The weights and scores of one head of a recorded layer; `hidden` keys are left blank."""

    layer: RecordedLayer
    head: int
    hidden: Sequence[int] = ()

    def cells(self, rows: slice, keys: slice, *, scores: bool = False) -> np.ndarray:
        """Weights, or with `scores` scores, of these queries and keys `[rows, keys]`; NaN where masked or hidden."""
        cells = (self.layer.scores if scores else self.layer.weights)(self.head, rows, keys)
        cells = np.where(self.layer.allowed(rows, keys), cells, np.nan)
        cells[:, [key - keys.start for key in self.hidden if keys.start <= key < keys.stop]] = np.nan
        return cells

    def pooled(self, rows: slice, keys: slice, block: tuple[int, int], *, scores: bool = False) -> np.ndarray:
        """Of each block of (queries, keys) what a row gives to its keys, mean; of scores that farthest from 0."""
        cells = self.cells(rows, keys, scores=scores)
        if block == (1, 1):
            return cells
        highest = blocks_of(np.fmax, cells, block)
        if scores:
            lowest = blocks_of(np.fmin, cells, block)
            return np.where(np.abs(highest) >= np.abs(lowest), highest, lowest)
        sums = blocks_of(np.add, np.where(np.isnan(cells), 0, cells), block)
        counts = blocks_of(np.add, np.ones((len(cells), 1)), (block[0], 1))
        return np.where(np.isnan(highest), np.nan, sums / counts)


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
