"""The patches of an image among the tokens, laid out as the image is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from attn_cli.picture import Box
from attn_cli.prompt import Token

WHOLE, TILED = "whole picture", "in tiles"  # the names of two grids of one image
_FEWEST = 4
_NEAR = 0.4  # of a patch: edges so near are those of one row or column
_OFF = 0.5  # of a cell: so far at most a patch lies from the cell that is drawn for it
_MOST = 0.9  # of the patches of other tiles that a tile must hold if it shows the whole picture


@dataclass(frozen=True, eq=False)
class ImageGrid:
    """Patches that make up a rectangle of an image.

    cells          the index of each patch among the tokens `[rows, columns]`
    name           which of several grids it is: WHOLE or TILED, after "image 2" where there are several; "" for one
    box            the part of the picture that it covers; None where that is unknown
    """

    cells: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    name: str = ""
    box: Box | None = None


def image_grids(tokens: Sequence[Token]) -> list[ImageGrid]:
    """The grids of the patches of each image: one, or of an image in tiles that of the whole and that of its tiles.

    >>> tokens = [Token(0, "[CLS]"), *(Token(1 + at, "", row=at // 2, column=at % 2) for at in range(4))]
    >>> image_grids(tokens)[0].cells.tolist(), image_grids(tokens[:4])
    ([[1, 2], [3, 4]], [])
    """
    images: dict[int | None, list[int]] = {}
    for at, token in enumerate(tokens):
        if token.row is not None:
            images.setdefault(token.image, []).append(at)
    return [
        grid if image is None else replace(grid, name=f"image {image}" + (f", {grid.name}" if grid.name else ""))
        for image, patches in images.items()
        for grid in _grids_of_image(tokens, patches)
    ]


def _grids_of_image(tokens: Sequence[Token], patches: Sequence[int]) -> list[ImageGrid]:
    numbered = _by_numbers(tokens, patches)
    if numbered is not None:
        return [numbered]
    if len(patches) < _FEWEST or any(tokens[at].box is None for at in patches):
        return []
    pieces: dict[int | None, list[int]] = {}
    for at in patches:
        pieces.setdefault(tokens[at].piece, []).append(at)
    whole = _whole_piece(tokens, pieces)
    others = [at for at in patches if whole is None or tokens[at].piece != whole]
    grids = [_by_boxes(tokens, others, TILED)]
    if whole is not None:
        grids.insert(0, _by_boxes(tokens, pieces[whole], WHOLE))
    return [grid for grid in grids if grid is not None]


def _by_numbers(tokens: Sequence[Token], patches: Sequence[int]) -> ImageGrid | None:
    """The grid of patches whose rows and columns are those of the image; None where several have the same."""
    rows, of_row = np.unique([tokens[at].row or 0 for at in patches], return_inverse=True)
    columns, of_column = np.unique([tokens[at].column or 0 for at in patches], return_inverse=True)
    cells = _cells(patches, of_row, of_column)
    if cells is None:
        return None
    gapless = all(numbers[-1] - numbers[0] < len(numbers) for numbers in (rows, columns))
    boxes = [box for at in patches if (box := tokens[at].box)]
    box = reduce(Box.around, boxes) if gapless and len(boxes) == len(patches) else None
    return ImageGrid(cells, [*map(str, rows.tolist())], [*map(str, columns.tolist())], box=box)


def _cells(patches: Sequence[int], rows: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    """The patches at their rows and columns; None where they are few, or make up no even rectangle."""
    if len(patches) < _FEWEST:
        return None
    cells = np.full((rows.max() + 1, columns.max() + 1), -1)
    cells[rows, columns] = patches
    return None if (cells < 0).any() or cells.size != len(patches) else cells


def _by_boxes(tokens: Sequence[Token], patches: Sequence[int], name: str) -> ImageGrid | None:
    """The grid of patches by their places in the picture; None where they make up no even rectangle."""
    boxes = [box for at in patches if (box := tokens[at].box) is not None]
    if len(boxes) < _FEWEST:
        return None
    rows = _lines([box.top for box in boxes], float(np.median([box.bottom - box.top for box in boxes])))
    columns = _lines([box.left for box in boxes], float(np.median([box.right - box.left for box in boxes])))
    cells, extent = _cells(patches, rows, columns), reduce(Box.around, boxes)
    if cells is None:
        return None
    height, width = (extent.bottom - extent.top) / cells.shape[0], (extent.right - extent.left) / cells.shape[1]
    down, across = np.array([box.middle for box in boxes]).T
    off_row, off_column = (down - extent.top) / height - rows - 0.5, (across - extent.left) / width - columns - 0.5
    if np.abs([off_row, off_column]).max() > _OFF:
        return None
    names, across_names = ([str(at) for at in range(size)] for size in cells.shape)
    return ImageGrid(cells, names, across_names, name, extent)


def _lines(edges: Sequence[float], size: float) -> np.ndarray:
    """For each edge the number of its row, or column, by order; edges nearer than a part of `size` are of one."""
    ordered, places = np.unique(edges, return_inverse=True)
    return np.cumsum(np.diff(ordered, prepend=ordered[0]) > _NEAR * size)[places]


def _whole_piece(tokens: Sequence[Token], pieces: dict[int | None, list[int]]) -> int | None:
    """The first piece that shows the whole picture by itself, where others show parts of it; None for none."""
    if len(pieces) < 2:
        return None
    for piece, own in pieces.items():
        extent = reduce(Box.around, [box for at in own if (box := tokens[at].box)])
        beside = [at for other, of in pieces.items() if other != piece for at in of]
        others = [box.middle for at in beside if (box := tokens[at].box)]
        inside = [extent.top <= y <= extent.bottom and extent.left <= x <= extent.right for y, x in others]
        if np.mean(inside) >= _MOST:
            return piece
    return None
