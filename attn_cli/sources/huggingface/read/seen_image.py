"""The image as the model saw it, resized and cropped, taken from the arrays that its processor made."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedConfig

from attn_cli.sources.huggingface.known_types import MergedSquares, type_of
from attn_cli.sources.huggingface.read.image_grid import (
    Patch,
    pixel_grid,
    row_by_row,
    spatial_grid,
    square_by_square,
    thw_grid,
    tiles_of,
    vision_config,
)


def seen_image(config: PreTrainedConfig, arrays: Mapping[str, Any], processor: Any) -> np.ndarray | None:
    """The pixels `[height, width, 3]` of all patches that a model got, as bytes.

    processor  states by what the pixels were normalised: `image_mean` and `image_std`

    None for several tiles or images, and for pixels that come neither as an image nor as patches of a known grid.
    """
    pixels = _pixels(config, arrays)
    if pixels is None or pixels.shape[0] != 3:
        return None
    part = getattr(processor, "image_processor", processor)
    normalised = getattr(part, "do_normalize", True)
    mean, deviation = (getattr(part, name, None) if normalised else None for name in ("image_mean", "image_std"))
    return as_bytes(pixels, mean, deviation)


def as_bytes(pixels: torch.Tensor, mean: Sequence[float] | None, deviation: Sequence[float] | None) -> np.ndarray:
    """Pixels `[3, height, width]` of 0 to 1, normalised by each channel's mean and deviation, as bytes, channels last.

    >>> as_bytes(torch.tensor([-1.0, 0.0, 1.0]).reshape(3, 1, 1), [0.5] * 3, [0.5] * 3).tolist()
    [[[0, 128, 255]]]
    """
    numbers = pixels.float().permute(1, 2, 0).numpy()
    if mean is not None and deviation is not None:
        numbers = numbers * np.array(deviation, np.float32) + np.array(mean, np.float32)
    return np.rint(np.clip(numbers, 0, 1) * 255).astype(np.uint8)


def _pixels(config: PreTrainedConfig, arrays: Mapping[str, Any]) -> torch.Tensor | None:
    """The pixels `[channels, height, width]` of the patches, without what is left over at the edges."""
    vision = vision_config(config)
    squares, patches = type_of(config).vision, arrays.get("pixel_values")
    if isinstance(squares, MergedSquares):
        grid = thw_grid(arrays)
        if grid is None or patches is None or len(patches) != grid.size:
            return None
        size = int(vision.patch_size)
        frames = patches.reshape(grid.size, 3, -1, size, size)[:, :, 0]  # a still image is repeated in time
        return _put_together(frames, square_by_square(grid, int(vision.spatial_merge_size)))
    grid = spatial_grid(arrays)
    if grid is not None and patches is not None:
        size = int(vision.patch_size)
        of_channels_last = patches[0, : grid.size].reshape(grid.size, size, size, 3).permute(0, 3, 1, 2)
        return _put_together(of_channels_last, row_by_row(grid))
    tiles = tiles_of(config, arrays)
    grid = pixel_grid(vision, tiles)
    if tiles is None or grid is None or len(tiles) != 1 or not grid.size:
        return None
    side = vision.patch_size
    height, width = (side, side) if isinstance(side, int) else side
    return tiles[0, :, : grid.rows * height, : grid.columns * width]


def _put_together(patches: torch.Tensor, places: Sequence[Patch]) -> torch.Tensor:
    """Patches `[n, channels, size, size]` as one image `[channels, height, width]`, each in its place."""
    rows, columns = 1 + max(place.row for place in places), 1 + max(place.column for place in places)
    _, channels, size, _ = patches.shape
    image = patches.new_zeros(channels, rows, size, columns, size)
    for patch, place in zip(patches, places, strict=True):
        image[:, place.row, :, place.column] = patch
    return image.reshape(channels, rows * size, columns * size)
