"""The part of a matrix that a pane shows: how much a cell stands for, how many fit, where the window begins."""

from functools import lru_cache
from typing import NamedTuple

_WITH_NUMBER = (7, 6, 5, 4, 3)  # columns of a cell that holds a number, the widest that lets all keys be seen
_ZOOMED = 5  # where not all keys can be seen


class CellForm(NamedTuple):
    """How many queries and keys a drawn cell stands for, its columns, and whether two (`halves`) share a line."""

    rows: int
    keys: int
    columns: int
    halves: bool

    @property
    def number(self) -> bool:
        """True if a drawn cell is wide enough for its number, and shows it."""
        return self.columns >= _WITH_NUMBER[-1] and not self.halves


class Space(NamedTuple):
    """Room for cells: lines and columns of a screen, and whether two cells can share a line."""

    lines: int
    columns: int
    halves: bool

    def capacity(self, form: CellForm) -> tuple[int, int]:
        """The number of cells that there is room for, down and across; at least one."""
        return max(self.lines * (2 if form.halves else 1), 1), max(self.columns // form.columns, 1)


class MatrixWindow(NamedTuple):
    """The part of a matrix that is drawn: queries top:bottom, keys left:right, and the size of a drawn cell."""

    form: CellForm
    top: int
    bottom: int
    left: int
    right: int

    @property
    def shape(self) -> tuple[int, int]:
        """How many cells are drawn, down and across."""
        return -(-(self.bottom - self.top) // self.form.rows), -(-(self.right - self.left) // self.form.keys)

    def cell_of(self, query: int, key: int) -> tuple[int, int]:
        """The cell, down and across from the window's first, in which a query and a key of the matrix are."""
        return (query - self.top) // self.form.rows, (key - self.left) // self.form.keys


@lru_cache(maxsize=64)
def forms(n: int, m: int, space: Space) -> tuple[CellForm, ...]:
    """The steps of zooming into `n` queries and `m` keys: the first shows all of them, each is finer than the last."""
    wide = next((columns for columns in _WITH_NUMBER if m * columns <= space.columns and n <= space.lines), _ZOOMED)
    finest = [CellForm(1, 1, wide, False), CellForm(1, 1, 2, False), CellForm(1, 1, 1, space.halves)]
    finest[2:2] = [CellForm(1, 1, columns, True) for columns in (3, 2) if space.halves and m * columns <= space.columns]
    for at, form in enumerate(finest):
        down, across = space.capacity(form)
        if n <= down and m <= across:
            return tuple(reversed(finest[: at + 1]))
    down, across = space.capacity(finest[-1])
    whole = CellForm(-(-n // down), -(-m // across), 1, space.halves)
    sizes = [2**power for power in range(1, 64) if 4**power < whole.rows * whole.keys]
    return (whole, *(CellForm(size, size, 1, space.halves) for size in reversed(sizes)), *reversed(finest))


def window_at(
    form: CellForm, size: tuple[int, int], space: Space, corner: tuple[int, int], cursor: tuple[int, int]
) -> MatrixWindow:
    """The window that holds `cursor` (query, key) and whose first query and key are nearest to `corner`."""
    ends = []
    for total, block, fits, start, place in zip(
        size, (form.rows, form.keys), space.capacity(form), corner, cursor, strict=True
    ):
        cells, at = -(-total // block), place // block
        first = min(max(start // block, at - fits + 1), at, max(cells - fits, 0))
        ends += [first * block, min((first + fits) * block, total)]
    return MatrixWindow(form, *ends)
