"""The patch of the image that each token of a vision tower stands for.

Known for the types in `known_types`, and for one image; nothing is guessed for others.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any

from transformers import PreTrainedConfig

from attn_cli.prompt import Token
from attn_cli.sources.huggingface.known_types import REGISTERS, GivenGrid, MergedSquares, RowByRow, type_of
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


def tower_tokens(config: PreTrainedConfig, arrays: Mapping[str, Any]) -> tuple[Token, ...]:
    """The tokens of the vision tower for the one image in `arrays`, labelled by patch; none where they are not known.

    For a tower that reads an image in tiles or windows, these follow each other in the order in which it reads them.
    """
    squares = type_of(config).vision
    if isinstance(squares, MergedSquares):
        patches = _merged(config, arrays, windows=squares.windows)
        return tuple(patch.labelled(Token(index, "")) for index, patch in enumerate(patches))
    layout = type_of(vision_config(config)).vision
    if isinstance(layout, GivenGrid):
        return _padded(arrays)
    return _tiled(config, arrays, layout) if isinstance(layout, RowByRow) else ()


def _padded(arrays: Mapping[str, Any]) -> tuple[Token, ...]:
    """The tokens of patches in `pixel_values` `[1, n, numbers]`, then those of the padding."""
    grid = spatial_grid(arrays)
    if grid is None:
        return ()
    patches = [patch.labelled(Token(at, "")) for at, patch in enumerate(row_by_row(grid))]
    padding = range(grid.size, arrays["pixel_values"].shape[1])
    return (*patches, *(Token(at, "[PAD]", special=True) for at in padding))


def _tiled(config: PreTrainedConfig, arrays: Mapping[str, Any], layout: RowByRow) -> tuple[Token, ...]:
    """The tokens of each tile: those before the patches, then the patches row by row."""
    vision, tiles = vision_config(config), tiles_of(config, arrays)
    grid = pixel_grid(vision, tiles)
    if tiles is None or grid is None:
        return ()
    names = [
        name
        for kind in layout.before
        for name in ([f"[REG{at}]" for at in range(vision.num_register_tokens)] if kind == REGISTERS else [kind])
    ]
    tokens: list[Token] = []
    for tile in range(len(tiles)) if len(tiles) > 1 else (None,):
        lead = "" if tile is None else f"t{tile},"
        tokens += [Token(len(tokens) + at, lead + name, special=True, piece=tile) for at, name in enumerate(names)]
        tokens += [patch.labelled(Token(len(tokens) + at, "")) for at, patch in enumerate(row_by_row(grid, tile))]
    return tuple(tokens)


def _merged(config: PreTrainedConfig, arrays: Mapping[str, Any], *, windows: bool) -> list[Patch]:
    """The patches square by square, and window by window where the tower has windows and the image several."""
    vision = config.vision_config
    grid, merge = thw_grid(arrays), int(vision.spatial_merge_size)
    if grid is None or grid.rows % merge or grid.columns % merge:
        return []
    patches = square_by_square(grid, merge)
    if not windows:
        return patches
    side = vision.window_size // merge // vision.patch_size * merge  # in patches
    places = list(product(range(-(-grid.rows // side)), range(-(-grid.columns // side))))
    if len(places) == 1:
        return patches
    return [
        patch._replace(window=number)
        for number, place in enumerate(places)
        for patch in patches
        if (patch.row // side, patch.column // side) == place
    ]
