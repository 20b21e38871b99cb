"""The patch of an image that each token of a vision tower stands for, and the patches that image tokens of a text hold.

Known for the types in `known_types`, and for one image; nothing is guessed for others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import isqrt
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from attn_cli.prompt import Token
from attn_cli.sources.huggingface.anatomy.configuration import configuration_of
from attn_cli.sources.huggingface.known_types import (
    REGISTERS,
    CoarserGrid,
    EachPatch,
    GivenGrid,
    MergedSquares,
    PackedTiles,
    RowByRow,
    Squares,
    type_of,
)
from attn_cli.sources.huggingface.read.image_grid import (
    Patch,
    PatchGrid,
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
        patches = _tower_of_squares(config, arrays, windows=squares.windows)
        return tuple(patch.labelled(Token(index, "")) for index, patch in enumerate(patches))
    layout = type_of(vision_config(config)).vision
    if isinstance(layout, GivenGrid):
        return _tower_with_padding(arrays)
    return _tower_of_tiles(config, arrays, layout) if isinstance(layout, RowByRow) else ()


def _tower_with_padding(arrays: Mapping[str, Any]) -> tuple[Token, ...]:
    """The tokens of patches in `pixel_values` `[1, n, numbers]`, then those of the padding."""
    grid = spatial_grid(arrays)
    if grid is None:
        return ()
    patches = [patch.labelled(Token(at, "")) for at, patch in enumerate(row_by_row(grid))]
    padding = range(grid.size, arrays["pixel_values"].shape[1])
    return (*patches, *(Token(at, "[PAD]", special=True) for at in padding))


def _tower_of_tiles(config: PreTrainedConfig, arrays: Mapping[str, Any], layout: RowByRow) -> tuple[Token, ...]:
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


def _tower_of_squares(config: PreTrainedConfig, arrays: Mapping[str, Any], *, windows: bool) -> list[Patch]:
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


def with_patches(tokens: Sequence[Token], model: PreTrainedModel, arrays: Mapping[str, Any]) -> tuple[Token, ...]:
    """The tokens of a text, those of the image labelled by the patches that they hold, where these are known."""
    config = configuration_of(model)
    marks = {getattr(config, name, None) for name in ("image_token_id", "image_token_index")} - {None}
    places = [at for at, token in enumerate(tokens) if token.id in marks]
    labelled = list(tokens)
    for at in places:  # image tokens are neither special tokens nor words of the text
        labelled[at] = replace(tokens[at], special=False, start=None, end=None)
    patches = _patches(model, arrays, len(places))
    if len(patches) == len(places):
        for number, (at, patch) in enumerate(zip(places, patches, strict=True)):
            if patch is None:
                piece = labelled[places[number - 1]].piece
                labelled[at] = replace(labelled[at], text="[NEWLINE]", special=True, piece=piece)
            else:
                labelled[at] = patch.labelled(labelled[at])
    return tuple(labelled)


def _patches(model: PreTrainedModel, arrays: Mapping[str, Any], count: int) -> Sequence[Patch | None]:
    """The patch, or square of patches, that each of the image's `count` tokens holds; None for the end of a row.

    An empty sequence where they are not known.
    """
    config = configuration_of(model)
    entry = type_of(config)
    if isinstance(entry.vision, MergedSquares):
        grid = thw_grid(arrays)
        return [] if grid is None else row_by_row(grid.in_squares(int(config.vision_config.spatial_merge_size)))
    match entry.image_tokens:
        case PackedTiles():
            return _packed(model, arrays)
        case CoarserGrid():
            return [] if tiles_of(config, arrays) is None else row_by_row(PatchGrid(isqrt(count), isqrt(count)))
        case EachPatch():
            return _in_tiles(config, arrays, 1)
        case Squares() as squares:
            return _in_squares(config, arrays, squares)
    return []


def _in_squares(config: PreTrainedConfig, arrays: Mapping[str, Any], squares: Squares) -> list[Patch]:
    """The squares of patches, row by row; of each tile, where there are several."""
    value = getattr(config, squares.side)
    side = round(1 / value) if value < 1 else int(value)
    if isinstance(type_of(vision_config(config)).vision, GivenGrid):
        grid = spatial_grid(arrays)
        return [] if grid is None else row_by_row(grid.in_squares(side))
    return _in_tiles(config, arrays, side, square_images=squares.square_images)


def _in_tiles(
    config: PreTrainedConfig, arrays: Mapping[str, Any], side: int, *, square_images: bool = False
) -> list[Patch]:
    """The squares of `side` x `side` patches of each tile, row by row; none if only `square_images` are known."""
    tiles = tiles_of(config, arrays)
    grid = pixel_grid(vision_config(config), tiles)
    if tiles is None or grid is None or (square_images and grid.rows != grid.columns):
        return []
    numbers = range(len(tiles)) if len(tiles) > 1 else (None,)
    return [patch for tile in numbers for patch in row_by_row(grid.in_squares(side), tile)]


def _packed(model: PreTrainedModel, arrays: Mapping[str, Any]) -> list[Patch | None]:
    """The patches of tiles that the model joins into one image; None for the end of a row.

    Found by calling the model's `pack_image_features` with patch numbers in place of patch vectors.
    """
    config = configuration_of(model)
    vision, tiles = vision_config(config), tiles_of(config, arrays)
    grid, sizes = pixel_grid(vision, tiles), arrays.get("image_sizes")
    layout = type_of(vision).vision
    if tiles is None or grid is None or sizes is None or len(sizes) != 1 or not isinstance(layout, RowByRow):
        return []
    # the model leaves one out, whether or not it is a patch
    if len(layout.before) != (config.vision_feature_select_strategy == "default"):
        return []
    patches = [patch for tile in range(len(tiles)) for patch in row_by_row(grid, tile)]
    numbers = torch.arange(len(patches), dtype=torch.float64).reshape(len(tiles), grid.size, 1)
    (packed,), _ = model.pack_image_features(
        [numbers], sizes, config.vision_feature_select_strategy, image_newline=numbers.new_full((1,), -1)
    )
    return [None if number < 0 else patches[int(number)] for number in packed[:, 0].tolist()]
