"""Which patch of the picture a token stands for, by row and column: in the vision tower, and where a text has it.

Known for the types below, whose tokens are the patches of one picture row by row; nothing is guessed for others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isqrt
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedConfig

from attn_cli.call import Token

# Types of vision towers, and what stands before their patches; "registers" are as many as the configuration says.
BEFORE_PATCHES: dict[str, tuple[str, ...]] = {
    "vit": ("[CLS]",),
    "deit": ("[CLS]", "[DIST]"),
    "vit_msn": ("[CLS]",),
    "beit": ("[CLS]",),
    "data2vec-vision": ("[CLS]",),
    "dinov2": ("[CLS]",),
    "dinov2_with_registers": ("[CLS]", "registers"),
    "dinov3_vit": ("[CLS]", "registers"),
    "ijepa": (),
    "clip_vision_model": ("[CLS]",),
    "chinese_clip_vision_model": ("[CLS]",),
    "metaclip_2_vision_model": ("[CLS]",),
    "altclip_vision_model": ("[CLS]",),
    "clipseg_vision_model": ("[CLS]",),
    "owlvit_vision_model": ("[CLS]",),
    "owlv2_vision_model": ("[CLS]",),
    "blip_vision_model": ("[CLS]",),
    "blip_2_vision_model": ("[CLS]",),
    "instructblip_vision_model": ("[CLS]",),
    "siglip_vision_model": (),
    "aimv2_vision_model": (),
    "dpt": ("[CLS]",),
    "granite_docling_vision": (),
    "internvl_vision": ("[CLS]",),
    "janus_vision_model": (),
    "kosmos_2_vision_model": ("[CLS]",),
    "mlcd_vision_model": ("[CLS]",),
    "ovis2_vision": (),
    "pixtral": (),
    "qianfan_ocr_vision": ("[CLS]",),
}
# Types whose vision tower takes patches in squares of `spatial_merge_size`, row by row within one, and whose text holds
# a token for each square; and one whose tower moves them about, so that only the text is known.
MERGED = {"qwen2_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "glm4v", "glm4v_moe", "glm_ocr"}
MERGED_IN_TEXT = MERGED | {"qwen2_5_vl"}
# Types whose text holds a token for each patch that the tower sees, and those where it holds means over a coarser grid.
SAME_IN_TEXT = {"llava", "paligemma"}
COARSER_IN_TEXT = {"gemma3"}


class Grid(NamedTuple):
    """So many rows and columns of patches."""

    rows: int
    columns: int

    @property
    def size(self) -> int:
        """The number of patches."""
        return self.rows * self.columns


def patch_token(index: int, row: int, column: int) -> Token:
    """The label of a patch: `r3,c5`, both from 0."""
    return Token(index, f"r{row},c{column}", row=row, column=column)


def tower_tokens(config: PreTrainedConfig, arrays: Mapping[str, Any]) -> tuple[Token, ...]:
    """The tokens of the vision tower for the one picture in `arrays`; none where they are not known."""
    if config.model_type in MERGED:
        grid, merge = _thw(arrays), _merge(config)
        if grid is None or grid.rows % merge or grid.columns % merge:
            return ()
        return tuple(patch_token(index, *place) for index, place in enumerate(_in_squares(grid, merge)))
    tower = _tower(config)
    grid = _grid(tower, arrays)
    if grid is None or tower.model_type not in BEFORE_PATCHES:
        return ()
    names = [
        name
        for kind in BEFORE_PATCHES[tower.model_type]
        for name in ([f"[REG{at}]" for at in range(tower.num_register_tokens)] if kind == "registers" else [kind])
    ]
    before = [Token(index, name, special=True) for index, name in enumerate(names)]
    patches = [patch_token(len(names) + at, *divmod(at, grid.columns)) for at in range(grid.size)]
    return (*before, *patches)


def with_patches(tokens: Sequence[Token], config: PreTrainedConfig, arrays: Mapping[str, Any]) -> tuple[Token, ...]:
    """The tokens of a text, those that the picture stands for labelled by their patch where that is known."""
    marks = {getattr(config, name, None) for name in ("image_token_id", "image_token_index")} - {None}
    places = [at for at, token in enumerate(tokens) if token.id in marks]
    found = list(tokens)
    for at in places:  # they hold the picture: nothing that a tokenizer added, and no word of the text
        found[at] = replace(tokens[at], special=False, start=None, end=None)
    grid = _text_grid(config, arrays, len(places))
    if grid is not None and grid.size == len(places):
        for number, at in enumerate(places):
            row, column = divmod(number, grid.columns)
            found[at] = replace(found[at], text=f"r{row},c{column}", row=row, column=column)
    return tuple(found)


def _text_grid(config: PreTrainedConfig, arrays: Mapping[str, Any], count: int) -> Grid | None:
    """The grid that the picture's tokens in a text make up."""
    if config.model_type in MERGED_IN_TEXT:
        grid, merge = _thw(arrays), _merge(config)
        return None if grid is None else Grid(grid.rows // merge, grid.columns // merge)
    if config.model_type in SAME_IN_TEXT:
        return _grid(_tower(config), arrays)
    if config.model_type in COARSER_IN_TEXT and _pixels(arrays) is not None:
        return Grid(isqrt(count), isqrt(count))
    return None


def _tower(config: PreTrainedConfig) -> PreTrainedConfig:
    """The configuration of what sees the picture."""
    parts = (getattr(config, name, None) for name in ("vision_config", "encoder"))
    return next((part for part in parts if isinstance(part, PreTrainedConfig)), config)


def _pixels(arrays: Mapping[str, Any]) -> torch.Tensor | None:
    """One picture `[1, channels, height, width]`; None for several, for tiles of one, and for videos."""
    pixels = arrays.get("pixel_values")
    return pixels if isinstance(pixels, torch.Tensor) and pixels.ndim == 4 and pixels.shape[0] == 1 else None


def _grid(tower: PreTrainedConfig, arrays: Mapping[str, Any]) -> Grid | None:
    """How many patches of the tower's size fit into the picture, down and across."""
    pixels, size = _pixels(arrays), getattr(tower, "patch_size", None)
    if pixels is None or size is None:
        return None
    height, width = (size, size) if isinstance(size, int) else size
    return Grid(pixels.shape[2] // height, pixels.shape[3] // width)


def _thw(arrays: Mapping[str, Any]) -> Grid | None:
    """The grid of one picture as Qwen2-VL and its kin are told it: frames, rows, columns."""
    grid = arrays.get("image_grid_thw")
    if not isinstance(grid, torch.Tensor) or grid.shape != (1, 3) or int(grid[0, 0]) != 1:
        return None
    return Grid(int(grid[0, 1]), int(grid[0, 2]))


def _merge(config: PreTrainedConfig) -> int:
    return int(config.vision_config.spatial_merge_size)


def _in_squares(grid: Grid, side: int) -> list[tuple[int, int]]:
    """Row and column of every patch, square by square.

    >>> _in_squares(Grid(2, 4), 2)
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    """
    return [
        (top + row, left + column)
        for top in range(0, grid.rows, side)
        for left in range(0, grid.columns, side)
        for row in range(side)
        for column in range(side)
    ]
