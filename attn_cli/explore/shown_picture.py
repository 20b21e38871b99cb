"""The image beside the text: which of its grids of patches is shown, and how large."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from attn_cli.explore.regions import Region
from attn_cli.picture import ReadPicture
from attn_cli.prompt import Token
from attn_cli.summaries.calls.image_grid import ImageGrid, image_grids

_FEWEST = 4  # columns and lines
_FROM, _SHARE = 60, 0.45  # columns of a text pane that has an image, and its share of them


@dataclass(frozen=True, eq=False)
class ShownPicture:
    """A part of an image `[h, w, 3]`, scaled to lines two pixels high, and the `grid` of patches that cover it."""

    grid: ImageGrid
    pixels: np.ndarray
    columns: int
    lines: int


class ShownPictures:
    """The images beside the texts of a recording, each made once for a size of the text pane."""

    def __init__(self) -> None:
        self._made: dict[Hashable, ShownPicture | None] = {}

    def beside(self, picture: ReadPicture | None, tokens: Sequence[Token], region: Region) -> ShownPicture | None:
        """The image beside a text in a region; None without one, and where there is no room."""
        if picture is None or region.width < _FROM:
            return None
        key = (id(tokens), region.width, region.height)
        if key not in self._made:
            most = int(region.width * _SHARE), region.height - 2  # less the title and the cell under the cursor
            self._made[key] = _fitting(picture, tokens, *most)
        return self._made[key]


def _fitting(picture: ReadPicture, tokens: Sequence[Token], columns: int, lines: int) -> ShownPicture | None:
    """The finest grid of the image's patches, as large as it can be; None without one, and where it would be tiny."""
    grid = max(image_grids(tokens), key=lambda grid: grid.cells.size, default=None)
    if grid is None or grid.box is None:
        return None
    box = grid.box
    aspect = (box.right - box.left) / (box.bottom - box.top)
    wide = min(columns, round(2 * lines * aspect))
    high = min(lines, round(wide / aspect / 2))
    if min(wide, high) < _FEWEST:
        return None
    return ShownPicture(grid, picture.cut(box), wide, high)
