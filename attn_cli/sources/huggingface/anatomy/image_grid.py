"""The patches of an image: their names, the grid read from a processor's arrays, and the orders of their tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedConfig

from attn_cli.picture import Box
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.anatomy.picture_places import Placement, box_of
from attn_cli.sources.huggingface.known_types import Tiles, type_of


class PatchGrid(NamedTuple):
    """A grid of `rows` x `columns` patches, each of `height` x `width` pixels of the tile; 0 where that is unknown."""

    rows: int
    columns: int
    height: float = 0.0
    width: float = 0.0

    @property
    def size(self) -> int:
        """The number of patches."""
        return self.rows * self.columns

    def in_squares(self, side: int) -> "PatchGrid":
        """The grid of squares of `side` x `side` patches; patches left over at the edges are in none."""
        return PatchGrid(self.rows // side, self.columns // side, self.height * side, self.width * side)

    def region(self, row: int, column: int, tile: int | None = None) -> tuple[int, Box] | None:
        """The number of a patch's tile (0 for None), and its edges in that tile's pixels; None without patch sizes."""
        if not self.height or not self.width:
            return None
        top, left = row * self.height, column * self.width
        return tile or 0, Box(top, left, top + self.height, left + self.width)


class Patch(NamedTuple):
    """Row and column of a patch, both from 0, and the tile or window of the image that it belongs to."""

    row: int
    column: int
    tile: int | None = None
    window: int | None = None
    region: tuple[int, Box] | None = None

    @property
    def name(self) -> str:
        """Its label: `r3,c5`; with the tile before it where row and column are those within a tile."""
        return f"r{self.row},c{self.column}" if self.tile is None else f"t{self.tile},r{self.row},c{self.column}"

    def labelled(self, token: Token, places: Sequence[Placement | None] = ()) -> Token:
        """A copy of the token with this patch's name as text, its cell, and part of the picture."""
        piece, box = self.window if self.tile is None else self.tile, box_of(self.region, places)
        return replace(token, text=self.name, row=self.row, column=self.column, piece=piece, box=box)


def row_by_row(grid: PatchGrid, tile: int | None = None) -> list[Patch]:
    """The patches of an image, or of a tile of one, in reading order."""
    places = product(range(grid.rows), range(grid.columns))
    return [Patch(row, column, tile, region=grid.region(row, column, tile)) for row, column in places]


def square_by_square(grid: PatchGrid, side: int) -> list[Patch]:
    """The patches of one square of `side` x `side` after the other, squares in reading order and patches in each.

    >>> [patch.name for patch in square_by_square(PatchGrid(2, 4), 2)]
    ['r0,c0', 'r0,c1', 'r1,c0', 'r1,c1', 'r0,c2', 'r0,c3', 'r1,c2', 'r1,c3']
    """
    return [
        Patch(top + row, left + column, region=grid.region(top + row, left + column))
        for top, left in product(range(0, grid.rows, side), range(0, grid.columns, side))
        for row, column in product(range(side), range(side))
    ]


def vision_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """The configuration of the part that sees the image; `config` itself where the model has no other part."""
    parts = (getattr(config, name, None) for name in ("vision_config", "encoder"))
    return next((part for part in parts if isinstance(part, PreTrainedConfig)), config)


def tiles_of(config: PreTrainedConfig, arrays: Mapping[str, Any]) -> torch.Tensor | None:
    """The tiles of one image `[tiles, channels, height, width]`, mostly one; None for several images and for videos."""
    pixels, axis = arrays.get("pixel_values"), type_of(config).tiles
    if not isinstance(pixels, torch.Tensor):
        return None
    if pixels.ndim == 5 and pixels.shape[0] == 1 and axis is Tiles.SECOND:
        # Idefics takes tiles of zeros for padding and leaves them out
        empty = bool((pixels[0] == 0).flatten(1).all(dim=1).any())
        return None if empty else pixels[0]
    return pixels if pixels.ndim == 4 and (pixels.shape[0] == 1 or axis is Tiles.BATCH) else None


def pixel_grid(vision: PreTrainedConfig, tiles: torch.Tensor | None) -> PatchGrid | None:
    """The patches of the vision tower's size that fit into a tile, down and across; None where either is unknown."""
    size = getattr(vision, "patch_size", None)
    if tiles is None or size is None:
        return None
    height, width = (size, size) if isinstance(size, int) else size
    return PatchGrid(tiles.shape[2] // height, tiles.shape[3] // width, height, width)


def spatial_grid(vision: PreTrainedConfig, arrays: Mapping[str, Any]) -> PatchGrid | None:
    """The grid of patches by `spatial_shapes` `[1, 2]`, as SigLIP 2 gets it; None without it or for several images."""
    pixels, shapes = arrays.get("pixel_values"), arrays.get("spatial_shapes")
    if not isinstance(pixels, torch.Tensor) or not isinstance(shapes, torch.Tensor) or pixels.ndim != 3:
        return None
    if shapes.shape != (1, 2) or pixels.shape[0] != 1:
        return None
    return PatchGrid(int(shapes[0, 0]), int(shapes[0, 1]), *(float(vision.patch_size),) * 2)


def thw_grid(vision: PreTrainedConfig, arrays: Mapping[str, Any]) -> PatchGrid | None:
    """The grid of patches by `image_grid_thw` `[1, 3]`: frames, rows, columns, as Qwen2-VL gets it."""
    grid = arrays.get("image_grid_thw")
    if not isinstance(grid, torch.Tensor) or grid.shape != (1, 3) or int(grid[0, 0]) != 1:
        return None
    return PatchGrid(int(grid[0, 1]), int(grid[0, 2]), *(float(vision.patch_size),) * 2)
