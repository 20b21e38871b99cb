"""The patches of tiles that LLaVA's models join into one image, without its padding, with a token behind each row."""

from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from attn_cli.picture import Box
from attn_cli.sources.huggingface.anatomy.configuration import configuration_of
from attn_cli.sources.huggingface.known_types import PackedTiles, RowByRow, type_of
from attn_cli.sources.huggingface.read.image_grid import Patch, pixel_grid, row_by_row, tiles_of, vision_config

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
    return whole if len(packed) == len(whole) else [*whole[: grid.size], *_coarser(packed[grid.size :], whole, patches)]


def _packed(
    model: PreTrainedModel, numbers: torch.Tensor, sizes: torch.Tensor, *more: Any, **named: Any
) -> list[float]:
    newline = numbers.new_full((1,), -1)
    (packed,), _ = model.base_model.pack_image_features([numbers], sizes, *more, image_newline=newline, **named)
    found: list[float] = packed[:, 0].tolist()
    return found


def _named(packed: list[float], patches: list[Patch]) -> list[Patch | None]:
    return [None if number < 0 else patches[int(number)] for number in packed]


def _coarser(packed: list[float], whole: list[Patch | None], patches: list[Patch]) -> list[Patch | None]:
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
