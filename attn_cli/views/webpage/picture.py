"""What a page holds of the image that was read: its pixels, and the patches that tokens stand for."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_cli.picture import Box, ReadPicture
from attn_cli.prompt import Token
from attn_cli.summaries.calls.image_grid import image_grids


class PagePicture:
    """An image of at most `side` pixels a side; each is the mean of the pixels of the whole image that it replaces."""

    def __init__(self, picture: ReadPicture, side: int) -> None:
        h, w, _ = picture.pixels.shape
        step = max(-(-max(h, w) // side), 1)
        rows, columns = (np.arange(0, size, step) for size in (h, w))
        sums = np.add.reduceat(np.add.reduceat(picture.pixels.astype(np.int64), rows, axis=0), columns, axis=1)
        counts = np.diff(np.append(rows, h))[:, None, None] * np.diff(np.append(columns, w))[None, :, None]
        self.pixels = np.rint(sums / counts).astype(np.uint8)
        self.down, self.across = h / step / picture.height, w / step / picture.width

    def grids(self, tokens: Sequence[Token]) -> list[dict[str, Any]]:
        """The image's grids of patches, for the page: of each its `name`, its edges (`box`), and its patches (`cells`).

        Edges are left, top, right and bottom, in pixels of this image; a patch is its token's index, then its edges.
        """
        return [
            {"name": grid.name or "image", "box": self._edges(grid.box),
             "cells": [[at, *self._edges(box)] for at in grid.cells.ravel().tolist()
                       if (box := tokens[at].box) is not None]}
            for grid in image_grids(tokens)
            if grid.box is not None
        ]  # fmt: skip

    def _edges(self, box: Box) -> list[float]:
        """Left, top, right and bottom."""
        edges = (box.left * self.across, box.top * self.down, box.right * self.across, box.bottom * self.down)
        return [round(edge, 2) for edge in edges]
