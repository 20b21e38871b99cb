"""The patches of an image that tokens of a vision tower, or of a text, stand for, in the known types."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import isqrt
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from attn_cli.picture import Box
from attn_cli.prompt import Prompt, Token
from attn_cli.sources.huggingface.anatomy.configuration import configuration_of
from attn_cli.sources.huggingface.anatomy.image_grid import (
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
from attn_cli.sources.huggingface.anatomy.picture_places import Placement
from attn_cli.sources.huggingface.known_types import (
    REGISTERS,
    MergedSquares,
    PackedTiles,
    RowByRow,
    Squares,
    type_of,
)

_NO_LIMIT = "anyres_max_1000000"  # so many tiles that the model shrinks none


def packed_tiles(model: PreTrainedModel, arrays: Mapping[str, Any], layout: PackedTiles) -> list[Patch | None]:
    """The patch that each of the image's tokens holds, tile 0 (all of the image) first; None at the end of a row."""
    config = configuration_of(model)
    vision, tiles = vision_config(config), tiles_of(config, arrays)
    grid, sizes = pixel_grid(vision, tiles), arrays.get("image_sizes")
    tower = type_of(vision).vision
    if tiles is None or grid is None or sizes is None or len(sizes) != 1 or not isinstance(tower, RowByRow):
        return []
    # the model leaves one out, whether or not it is a patch
    if len(tower.before) != (config.vision_feature_select_strategy == "default"):
        return []
    patches = [patch for tile in range(len(tiles)) for patch in row_by_row(grid, tile)]
    numbers = torch.arange(len(patches), dtype=torch.float64).reshape(len(tiles), grid.size, 1)
    if not layout.shrinks:
        return _named(_packed(model, numbers, sizes, config.vision_feature_select_strategy), patches)
    whole = _named(_packed(model, numbers, sizes, vision_aspect_ratio=_NO_LIMIT), patches)
    packed = _packed(model, numbers, sizes, vision_aspect_ratio=config.vision_aspect_ratio)
    return (
        whole
        if len(packed) == len(whole)
        else [*whole[: grid.size], *_coarser_tiles(packed[grid.size :], whole, patches)]
    )


def _packed(
    model: PreTrainedModel, numbers: torch.Tensor, sizes: torch.Tensor, *more: Any, **named: Any
) -> list[float]:
    newline = numbers.new_full((1,), -1)
    (packed,), _ = model.base_model.pack_image_features([numbers], sizes, *more, image_newline=newline, **named)
    found: list[float] = packed[:, 0].tolist()
    return found


def _named(packed: list[float], patches: list[Patch]) -> list[Patch | None]:
    return [None if number < 0 else patches[int(number)] for number in packed]


def _coarser_tiles(packed: list[float], whole: list[Patch | None], patches: list[Patch]) -> list[Patch | None]:
    """The cells of the joined image's grid, of which `packed` has a number each, and -1 at the end of each row."""
    columns, rows = packed.index(-1), packed.count(-1)
    joined = whole[sum(patch.tile == 0 for patch in patches) :]
    wide = joined.index(None)
    first = joined[0]
    assert first is not None and first.region is not None
    tile, cell = first.region  # a grid whose cells reach beyond their tile is that of the first one, continued
    high, width = (cell.bottom - cell.top) * joined.count(None) / rows, (cell.right - cell.left) * wide / columns
    return [
        None
        if column == columns
        else Patch(row, column, region=(tile, _cell(cell.top + row * high, cell.left + column * width, high, width)))
        for row in range(rows)
        for column in range(columns + 1)
    ]


def _cell(top: float, left: float, height: float, width: float) -> Box:
    return Box(top, left, top + height, left + width)


def tower_tokens(
    config: PreTrainedConfig, arrays: Mapping[str, Any], places: Sequence[Placement | None] = ()
) -> tuple[Token, ...]:
    """The tokens of the vision tower for the one image in `arrays`, labelled by patch; () where they are not known."""
    squares = type_of(config).vision
    if isinstance(squares, MergedSquares):
        patches = _tower_of_squares(config, arrays, windows=squares.windows)
        return tuple(patch.labelled(Token(index, ""), places) for index, patch in enumerate(patches))
    layout = type_of(vision_config(config)).vision
    if layout == "given grid":
        return _tower_with_padding(config, arrays, places)
    return _tower_of_tiles(config, arrays, layout, places) if isinstance(layout, RowByRow) else ()


def _tower_with_padding(
    config: PreTrainedConfig, arrays: Mapping[str, Any], places: Sequence[Placement | None]
) -> tuple[Token, ...]:
    grid = spatial_grid(vision_config(config), arrays)
    if grid is None:
        return ()
    patches = [patch.labelled(Token(at, ""), places) for at, patch in enumerate(row_by_row(grid))]
    padding = range(grid.size, arrays["pixel_values"].shape[1])
    return (*patches, *(Token(at, "[PAD]", special=True) for at in padding))


def _tower_of_tiles(
    config: PreTrainedConfig, arrays: Mapping[str, Any], layout: RowByRow, places: Sequence[Placement | None]
) -> tuple[Token, ...]:
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
    for tile in _numbers(tiles):
        lead = "" if tile is None else f"t{tile},"
        tokens += [Token(len(tokens) + at, lead + name, special=True, piece=tile) for at, name in enumerate(names)]
        tokens += [
            patch.labelled(Token(len(tokens) + at, ""), places) for at, patch in enumerate(row_by_row(grid, tile))
        ]
    return tuple(tokens)


def _tower_of_squares(config: PreTrainedConfig, arrays: Mapping[str, Any], *, windows: bool) -> list[Patch]:
    """The patches square by square, and window by window where the tower has windows and the image several."""
    vision = config.vision_config
    grid, merge = thw_grid(config.vision_config, arrays), int(vision.spatial_merge_size)
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


def with_patches(
    tokens: Sequence[Token], model: PreTrainedModel, arrays: Mapping[str, Any], places: Sequence[Placement | None] = ()
) -> tuple[Token, ...]:
    """The tokens of a text, those of the image labelled by the patches that they hold, where these are known."""
    marked = image_places(configuration_of(model), tokens)
    labelled = list(tokens)
    for at in marked:  # image tokens are neither special tokens nor words of the text
        labelled[at] = replace(tokens[at], special=False, start=None, end=None)
    patches = _patches(model, arrays, len(marked))
    if len(patches) == len(marked):
        for number, (at, patch) in enumerate(zip(marked, patches, strict=True)):
            if patch is None:
                piece = labelled[marked[number - 1]].piece
                labelled[at] = replace(labelled[at], text="[NEWLINE]", special=True, piece=piece)
            else:
                labelled[at] = patch.labelled(labelled[at], places)
    return tuple(labelled)


def with_images(
    config: PreTrainedConfig, prompt: Prompt, parts: Sequence[Prompt], lefts: Sequence[int]
) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """The tokens of a text with several images, and of the tower, labelled as in prompts of each image alone."""
    marked = image_places(config, prompt.tokens)
    own = list(_numbered([[part.tokens[at] for at in image_places(config, part.tokens)] for part in parts], lefts))
    tokens = list(prompt.tokens)
    for number, at in enumerate(marked):
        token = own[number] if len(own) == len(marked) else replace(tokens[at], special=False, start=None, end=None)
        tokens[at] = replace(token, index=at)
    towers = [part.others.get("vision", ()) for part in parts if len(own) == len(marked)]
    return tuple(tokens), tuple(_numbered(towers, lefts))


def _numbered(images: Sequence[Sequence[Token]], lefts: Sequence[int]) -> Iterator[Token]:
    tokens = ((number, token) for number, of in enumerate(images, 1) for token in of)
    for index, (number, token) in enumerate(tokens):
        box, left = token.box, lefts[number - 1]
        moved = None if box is None else box._replace(left=box.left + left, right=box.right + left)
        yield replace(token, index=index, text=f"{number}:{token.text}", image=number, box=moved)


def unplaced_notes(config: PreTrainedConfig, text: Sequence[Token], tower: Sequence[Token]) -> tuple[str, ...]:
    """A note where nobody knows which part of the picture the image's tokens show; () where that is known."""
    marked = [text[at] for at in image_places(config, text)]
    if any(token.box is not None for token in marked or (*text, *tower)):
        return ()
    which = "the text's tokens of the image" if marked else "the tokens of the image"
    return (f"{which} have no known place in it ({config.model_type}): they are drawn as tokens, not on the picture",)


def image_places(config: PreTrainedConfig, tokens: Sequence[Token]) -> list[int]:
    """The indices of the tokens that stand for images in a text."""
    marks = {getattr(config, name, None) for name in ("image_token_id", "image_token_index")} - {None}
    return [at for at, token in enumerate(tokens) if token.id in marks]


def _patches(model: PreTrainedModel, arrays: Mapping[str, Any], count: int) -> Sequence[Patch | None]:
    """The patch, or square of patches, that each of the image's `count` tokens holds; None for the end of a row."""
    config = configuration_of(model)
    entry = type_of(config)
    if isinstance(entry.vision, MergedSquares):
        grid = thw_grid(config.vision_config, arrays)
        return [] if grid is None else row_by_row(grid.in_squares(int(config.vision_config.spatial_merge_size)))
    match entry.image_tokens:
        case PackedTiles() as packed:
            return packed_tiles(model, arrays, packed)
        case "coarser grid":
            return _coarser(config, arrays, count)
        case "each patch":
            return _in_tiles(config, arrays, 1)
        case Squares() as squares:
            return _in_squares(config, arrays, squares)
    return []


def _coarser(config: PreTrainedConfig, arrays: Mapping[str, Any], count: int) -> list[Patch]:
    """The cells of each tile, row by row, of as many tokens as `count` says in all."""
    tiles = tiles_of(config, arrays)
    if tiles is None or count % len(tiles):
        return []
    side = isqrt(count // len(tiles))
    grid = PatchGrid(side, side, tiles.shape[2] / max(side, 1), tiles.shape[3] / max(side, 1))
    return [patch for tile in _numbers(tiles) for patch in row_by_row(grid, tile)]


def _numbers(tiles: torch.Tensor) -> Sequence[int | None]:
    return range(len(tiles)) if len(tiles) > 1 else (None,)


def _in_squares(config: PreTrainedConfig, arrays: Mapping[str, Any], squares: Squares) -> list[Patch]:
    """The squares of patches, row by row; of each tile, where there are several."""
    value = getattr(config, squares.side)
    side = round(1 / value) if value < 1 else int(value)
    if type_of(vision_config(config)).vision == "given grid":
        grid = spatial_grid(vision_config(config), arrays)
        return [] if grid is None else row_by_row(grid.in_squares(side))
    return _in_tiles(config, arrays, side, square_images=squares.square_images)


def _in_tiles(
    config: PreTrainedConfig, arrays: Mapping[str, Any], side: int, *, square_images: bool = False
) -> list[Patch]:
    tiles = tiles_of(config, arrays)
    grid = pixel_grid(vision_config(config), tiles)
    if tiles is None or grid is None or (square_images and grid.rows != grid.columns):
        return []
    return [patch for tile in _numbers(tiles) for patch in row_by_row(grid.in_squares(side), tile)]
