"""Pictures that panes ask of a recording: at once where that is little, else by one thread, strip by strip."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from attn_cli.explore.grids import Grid
from attn_cli.explore.window import MatrixWindow

AT_ONCE = 2**20  # cells that are computed while somebody waits: some milliseconds
_KEPT = 24  # pictures
_BETWEEN = 0.2  # seconds between two signs of progress


@dataclass(frozen=True, eq=False)
class Picture:
    """Numbers of drawn cells `[down, across]`, the largest weight or farthest score in each, NaN where all is masked.

    `coarse` numbers are preliminary: a recording's thumbnail, or only some computed yet.
    """

    values: np.ndarray
    coarse: bool = False


class Answers:
    """Computes the numbers of drawn matrices in threads, and keeps the latest; `changed` is called in one."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self.changed = changed
        self.error: BaseException | None = None
        self._kept: OrderedDict[Hashable, Picture] = OrderedDict()
        self._wanted: dict[int, Hashable] = {}  # by slot
        self._waiting: list[threading.Thread] = []
        self._lock = threading.Lock()

    def picture(
        self, key: Hashable, grid: Grid, window: MatrixWindow, *, scores: bool = False, slot: int = 0
    ) -> Picture:
        """The numbers of the part `window` of a matrix; coarse until a thread of `refine` has computed them."""
        key = (key, window, scores)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                picture = self._kept[key]
                if not picture.coarse or self._wanted.get(slot) == key:
                    self._wanted[slot] = key
                    return picture
            self._wanted[slot] = key
            rows, keys = window.bottom - window.top, window.right - window.left
            if rows * keys * grid.cost <= AT_ONCE:
                return self._keep(key, Picture(_computed(grid, window, scores, 0, rows)))
            picture = self._keep(key, Picture(_enlarged(grid, window, scores), coarse=True))
        refining = (key, grid, window, scores)
        self._waiting.append(threading.Thread(target=self._refine, args=refining, daemon=True, name="answers"))
        return picture

    def refine(self) -> None:
        """Start threads that compute in full the pictures that were handed out coarse since the last call."""
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            thread.start()

    def forget(self) -> None:
        """Drop all pictures, as another recording is shown."""
        with self._lock:
            self._wanted.clear()
            self._kept.clear()

    def _keep(self, key: Hashable, picture: Picture) -> Picture:
        self._kept[key] = picture
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return picture

    def _refine(self, key: Hashable, grid: Grid, window: MatrixWindow, scores: bool) -> None:
        """Compute the picture in strips of whole cells; the coarse one gives way to each."""
        total, step = window.bottom - window.top, window.form.rows
        step *= max(AT_ONCE // (step * (window.right - window.left) * grid.cost), 1)
        values, last = None, time.monotonic()
        try:
            for start in range(0, total, step):
                strip = _computed(grid, window, scores, start, min(start + step, total))
                with self._lock:
                    if key not in self._wanted.values():
                        return
                    values = np.array(self._kept[key].values) if values is None else values
                    values[start // window.form.rows : start // window.form.rows + len(strip)] = strip
                    done = start + step >= total
                    self._keep(key, Picture(np.array(values), coarse=not done))
                if done or time.monotonic() - last > _BETWEEN:
                    last = time.monotonic()
                    self.changed()
        except BaseException as error:  # the screen's thread raises it
            self.error = error
            self.changed()


def _computed(grid: Grid, window: MatrixWindow, scores: bool, start: int, stop: int) -> np.ndarray:
    rows = slice(window.top + start, window.top + stop)
    block = (window.form.rows, window.form.keys)
    return grid.pooled(rows, slice(window.left, window.right), block, scores=scores)


def _enlarged(grid: Grid, window: MatrixWindow, scores: bool) -> np.ndarray:
    """The thumbnail's weights in the middle of each of the window's cells; of scores, and without one, nothing."""
    down, across = window.shape
    coarse = None if scores else grid.coarse()
    if coarse is None:
        return np.full((down, across), np.nan)
    weights, block = coarse
    places = []
    for count, start, end, step, size, total in zip(
        (down, across), (window.top, window.left), (window.bottom, window.right), window.form[:2], block,
        weights.shape, strict=True,
    ):  # fmt: skip
        middle = np.minimum(start + np.arange(count) * step + step // 2, end - 1)
        places.append(np.minimum(middle // size, total - 1))
    return weights[np.ix_(*places)]
