"""The pixels that a vision tower gets, as images: one for each tile, put together where they come as patches."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedConfig

from attn_cli.sources.huggingface.known_types import MergedSquares, type_of
from attn_cli.sources.huggingface.read.image_grid import (
    Patch,
    row_by_row,
    spatial_grid,
    square_by_square,
    thw_grid,
    tiles_of,
    vision_config,
)


def tile_pixels(config: PreTrainedConfig, arrays: Mapping[str, Any]) -> torch.Tensor | None:
    """The tiles `[tiles, channels, height, width]` of the one image in `arrays`, mostly one tile.

    None for several images, and for pixels that come neither as images nor as patches of a known grid.
    """
    vision = vision_config(config)
    squares, patches = type_of(config).vision, arrays.get("pixel_values")
    if isinstance(squares, MergedSquares):
        grid = thw_grid(vision, arrays)
        if grid is None or patches is None or len(patches) != grid.size:
            return None
        size = int(vision.patch_size)
        frames = patches.reshape(grid.size, 3, -1, size, size)[:, :, 0]  # a still image is repeated in time
        return _put_together(frames, square_by_square(grid, int(vision.spatial_merge_size)))
    grid = spatial_grid(vision, arrays)
    if grid is not None and patches is not None:
        size = int(vision.patch_size)
        of_channels_last = patches[0, : grid.size].reshape(grid.size, size, size, 3).permute(0, 3, 1, 2)
        return _put_together(of_channels_last, row_by_row(grid))
    return tiles_of(config, arrays)


def _put_together(patches: torch.Tensor, places: Sequence[Patch]) -> torch.Tensor:
    """Patches `[n, channels, size, size]` as one image `[1, channels, height, width]`, each in its place."""
    rows, columns = 1 + max(place.row for place in places), 1 + max(place.column for place in places)
    _, channels, size, _ = patches.shape
    image = patches.new_zeros(channels, rows, size, columns, size)
    for patch, place in zip(patches, places, strict=True):
        image[:, place.row, :, place.column] = patch
    return image.reshape(1, channels, rows * size, columns * size)
