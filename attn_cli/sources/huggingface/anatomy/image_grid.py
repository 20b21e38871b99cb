"""The grid of patches that a model reads of a picture, the tokens that stand for its cells, and its pixels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import isqrt
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedConfig

from attn_cli.prompt import Token
from attn_cli.sources.huggingface.known_types import BEFORE_PATCHES

Grid = tuple[int, int]  # rows and columns

_MERGED = ("spatial_merge_size", "downsample_factor", "downsample_ratio", "scale_factor")
_LARGEST = 640  # pixels a side of what is drawn and kept of a picture


def vision_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """The configuration of the part that sees the image; `config` itself where the model has no other part."""
    parts = (getattr(config, name, None) for name in ("vision_config", "encoder"))
    return next((part for part in parts if isinstance(part, PreTrainedConfig)), config)


def image_grids(config: PreTrainedConfig, arrays: Mapping[str, Any]) -> list[Grid]:
    """The grid of patches of each image in the arrays, or of each of its tiles; [] where patches have no known size."""
    pixels, patch = arrays.get("pixel_values"), _patch_size(config)
    if not isinstance(pixels, torch.Tensor) or patch is None:
        return []
    if "image_grid_thw" in arrays:
        return [(rows, columns) for _, rows, columns in arrays["image_grid_thw"].tolist()]
    if "spatial_shapes" in arrays:
        return [(rows, columns) for rows, columns in arrays["spatial_shapes"].tolist()]
    if pixels.ndim not in (4, 5):
        return []
    return [(pixels.shape[-2] // patch[0], pixels.shape[-1] // patch[1])] * pixels.shape[:-3].numel()


def _patch_size(config: PreTrainedConfig) -> tuple[int, int] | None:
    size = getattr(vision_config(config), "patch_size", None)
    sizes = (size, size) if isinstance(size, int) else tuple(size or ())
    return sizes if len(sizes) == 2 else None  # one for each stage


def tower_tokens(config: PreTrainedConfig, arrays: Mapping[str, Any], grid: Grid) -> tuple[Token, ...]:
    """The vision tower's tokens of one image, where it reads them row by row; () where the order isn't known."""
    vision = vision_config(config)
    if (before := BEFORE_PATCHES.get(vision.model_type)) is None:
        return ()
    names = [*before, *(f"[REG{at}]" for at in range(getattr(vision, "num_register_tokens", 0)))]
    tokens = [Token(at, name, special=True) for at, name in enumerate(names)] + cells(grid, len(names))
    filled = arrays["pixel_values"].shape[1] if "spatial_shapes" in arrays else 0
    return (*tokens, *(Token(at, "[PAD]", special=True) for at in range(len(tokens), filled)))


def cells(grid: Grid, first: int = 0) -> list[Token]:
    """The patches of a grid in reading order, r0,c0 and so on, as tokens from the index `first` on."""
    places = product(*map(range, grid))
    return [Token(at, f"r{row},c{column}", row=row, column=column) for at, (row, column) in enumerate(places, first)]


def with_patches(config: PreTrainedConfig, tokens: Sequence[Token], grids: Sequence[Grid]) -> tuple[Token, ...]:
    """The tokens of a text, those of images named by their cells where images have as many tokens as cells."""
    marked = image_places(config, tokens)
    labelled = list(tokens)
    for at in marked:  # image tokens are neither special tokens nor words of the text
        labelled[at] = replace(tokens[at], special=False, start=None, end=None)
    merged = [_merged(config, grid) for grid in grids]
    patches = [(number, cell) for number, grid in enumerate(merged, 1) for cell in cells(grid)]
    if len(patches) == len(marked):
        for at, (number, cell) in zip(marked, patches, strict=True):
            name, image = (f"{number}:{cell.text}", number) if len(grids) > 1 else (cell.text, None)
            labelled[at] = replace(labelled[at], text=name, row=cell.row, column=cell.column, image=image)
    return tuple(labelled)


def image_places(config: PreTrainedConfig, tokens: Sequence[Token]) -> list[int]:
    """The indices of the tokens that stand for images in a text."""
    marks = {getattr(config, name, None) for name in ("image_token_id", "image_token_index")} - {None}
    return [at for at, token in enumerate(tokens) if token.id in marks]


def _merged(config: PreTrainedConfig, grid: Grid) -> Grid:
    """The grid of the squares of patches that a text has a token for, by the configuration; (0, 0) for a remainder."""
    rows, columns = grid
    count = getattr(config, "mm_tokens_per_image", None)
    stated = [getattr(part, name, None) for name in _MERGED for part in (config, vision_config(config))]
    side = next((side for side in stated if isinstance(side, int | float) and side > 0), 1)
    side = rows // isqrt(count) if count else round(1 / side) if side < 1 else int(side)
    return (0, 0) if not side or rows % side or columns % side else (rows // side, columns // side)


def picture_read(config: PreTrainedConfig, arrays: Mapping[str, Any], grid: Grid) -> np.ndarray:
    """The picture as the model reads it `[height, width, 3]`, without what is left over beside its patches."""
    (high, wide), (rows, columns), pixels = _patch_size(config) or (1, 1), grid, arrays["pixel_values"].float()
    if "image_grid_thw" in arrays:  # square by square, each patch with its colours and frames
        side = int(vision_config(config).spatial_merge_size)
        patches = pixels.reshape(rows // side, columns // side, side, side, 3, -1, high, wide).mean(5)
    elif "spatial_shapes" in arrays:  # row by row, colours last
        patches = pixels[0, : rows * columns].reshape(rows, columns, 1, 1, high, wide, 3).movedim(-1, 4)
    else:
        return as_bytes(pixels.flatten(0, -4)[0, :, : rows * high, : columns * wide])
    return as_bytes(patches.permute(4, 0, 2, 5, 1, 3, 6).reshape(3, rows * high, columns * wide))


def as_bytes(pixels: torch.Tensor) -> np.ndarray:
    """Pixels `[colours, height, width]` of any range as bytes `[height, width, 3]`, at most 640 a side."""
    step = -(-max(pixels.shape[1:]) // _LARGEST)
    shown = pixels[: 3 if len(pixels) > 2 else 1, ::step, ::step].expand(3, -1, -1).movedim(0, 2).contiguous()
    low, high = shown.min(), shown.max()
    return ((shown - low) * (255 / (high - low).clamp(min=1e-6))).round().to(torch.uint8).cpu().numpy()
