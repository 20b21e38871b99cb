"""Which patch of the picture a token stands for, by row and column: in the vision tower, and where a text has it.

Known for the types below, whose tokens are the patches of one picture; nothing is guessed for others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import isqrt
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from attn_cli.prompt import Token

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
    "idefics2_vision": (),
    "idefics3_vision": (),
    "internvl_vision": ("[CLS]",),
    "janus_vision_model": (),
    "kosmos_2_vision_model": ("[CLS]",),
    "mlcd_vision_model": ("[CLS]",),
    "ovis2_vision": (),
    "pixtral": (),
    "qianfan_ocr_vision": ("[CLS]",),
    "smolvlm_vision": (),
}
# Types of vision towers that are told the grid of patches which come one after the other, filled up to a number.
TOLD_SHAPES = {"siglip2_vision_model"}
# Types whose vision tower takes patches in squares of `spatial_merge_size`, row by row within one, and whose text holds
# a token for each square; and those whose tower takes the squares window by window.
MERGED = {"qwen2_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "glm4v", "glm4v_moe", "glm_ocr"}
WINDOWED = {"qwen2_5_vl"}
# Types whose tower sees tiles of a picture one by one, which are its batch, or the second axis of their array.
TILES_ARE_BATCH = {"internvl", "aya_vision", "cohere2_vision"}
TILES_ARE_SECOND = {"llava_next", "llava_onevision", "idefics2", "idefics3", "smolvlm"}
# Types whose text holds a token for each patch that the tower sees, and those where it holds means over a coarser grid.
SAME_IN_TEXT = {"llava", "paligemma", "deepseek_vl"}
COARSER_IN_TEXT = {"gemma3"}
# Types whose text holds a token for each square of patches, so many patches wide.
SQUARES_IN_TEXT: dict[str, Callable[[PreTrainedConfig], int]] = {
    "internvl": lambda config: round(1 / config.downsample_ratio),
    "idefics3": lambda config: int(config.scale_factor),
    "smolvlm": lambda config: int(config.scale_factor),
    "mistral3": lambda config: int(config.spatial_merge_size),
    "aya_vision": lambda config: int(config.downsample_factor),
    "cohere2_vision": lambda config: int(config.downsample_factor),
    "lfm2_vl": lambda config: int(config.downsample_factor),
}
# Those of them that take every picture for as wide as it is high.
SQUARE_ALONE = {"internvl", "idefics3", "smolvlm", "aya_vision", "cohere2_vision"}
# Types whose model puts the tiles together again, with a token at the end of each row.
PACKED_IN_TEXT = {"llava_next"}


class Grid(NamedTuple):
    """So many rows and columns of patches."""

    rows: int
    columns: int

    @property
    def size(self) -> int:
        """The number of patches."""
        return self.rows * self.columns

    def in_squares(self, side: int) -> "Grid":
        """The grid of squares of `side` patches; what is left at the edges is in none."""
        return Grid(self.rows // side, self.columns // side)


class Patch(NamedTuple):
    """Row and column of a patch, both from 0, and the piece of the picture that it belongs to.

    >>> Patch(3, 5).name, Patch(3, 5, tile=1).name
    ('r3,c5', 't1,r3,c5')
    """

    row: int
    column: int
    tile: int | None = None
    window: int | None = None

    @property
    def name(self) -> str:
        """What it is called: `r3,c5`, with the tile before it where row and column are those within one."""
        return f"r{self.row},c{self.column}" if self.tile is None else f"t{self.tile},r{self.row},c{self.column}"

    def labelled(self, token: Token) -> Token:
        """The token as that of this patch."""
        piece = self.window if self.tile is None else self.tile
        return replace(token, text=self.name, row=self.row, column=self.column, piece=piece)


def tower_tokens(config: PreTrainedConfig, arrays: Mapping[str, Any]) -> tuple[Token, ...]:
    """The tokens of the vision tower for the one picture in `arrays`; none where they are not known.

    Tokens of a tower that sees the picture in pieces stand as it sees them, one piece after the other.
    """
    if config.model_type in MERGED | WINDOWED:
        return tuple(patch.labelled(Token(index, "")) for index, patch in enumerate(_merged(config, arrays)))
    tower, pixels = _tower(config), _tiles(config, arrays)
    if tower.model_type in TOLD_SHAPES and (told := _told_grid(arrays)) is not None:
        patches = [patch.labelled(Token(at, "")) for at, patch in enumerate(_row_by_row(told))]
        rest = range(told.size, arrays["pixel_values"].shape[1])
        return (*patches, *(Token(at, "[PAD]", special=True) for at in rest))
    grid = _grid(tower, pixels)
    if pixels is None or grid is None or tower.model_type not in BEFORE_PATCHES:
        return ()
    names = [
        name
        for kind in BEFORE_PATCHES[tower.model_type]
        for name in ([f"[REG{at}]" for at in range(tower.num_register_tokens)] if kind == "registers" else [kind])
    ]
    found: list[Token] = []
    for tile in range(len(pixels)) if len(pixels) > 1 else (None,):
        lead = "" if tile is None else f"t{tile},"
        found += [Token(len(found) + at, lead + name, special=True, piece=tile) for at, name in enumerate(names)]
        found += [patch.labelled(Token(len(found) + at, "")) for at, patch in enumerate(_row_by_row(grid, tile))]
    return tuple(found)


def with_patches(tokens: Sequence[Token], model: PreTrainedModel, arrays: Mapping[str, Any]) -> tuple[Token, ...]:
    """The tokens of a text, those that the picture stands for labelled by their patch where that is known."""
    config = model.config
    marks = {getattr(config, name, None) for name in ("image_token_id", "image_token_index")} - {None}
    places = [at for at, token in enumerate(tokens) if token.id in marks]
    found = list(tokens)
    for at in places:  # they hold the picture: nothing that a tokenizer added, and no word of the text
        found[at] = replace(tokens[at], special=False, start=None, end=None)
    patches = _packed(model, arrays) if config.model_type in PACKED_IN_TEXT else _in_text(config, arrays, len(places))
    if len(patches) == len(places):
        for number, (at, patch) in enumerate(zip(places, patches, strict=True)):
            if patch is None:
                found[at] = replace(found[at], text="[NEWLINE]", special=True, piece=found[places[number - 1]].piece)
            else:
                found[at] = patch.labelled(found[at])
    return tuple(found)


def _in_text(config: PreTrainedConfig, arrays: Mapping[str, Any], count: int) -> list[Patch]:
    """The patches, or squares of patches, that the picture's tokens in a text hold; none where they are not known."""
    kind, pixels = config.model_type, _tiles(config, arrays)
    if kind in MERGED | WINDOWED:
        grid = _thw(arrays)
        return [] if grid is None else _row_by_row(grid.in_squares(_merge(config)))
    if _tower(config).model_type in TOLD_SHAPES and kind in SQUARES_IN_TEXT:
        told = _told_grid(arrays)
        return [] if told is None else _row_by_row(told.in_squares(SQUARES_IN_TEXT[kind](config)))
    if pixels is None:
        return []
    if kind in COARSER_IN_TEXT:
        return _row_by_row(Grid(isqrt(count), isqrt(count)))
    grid = _grid(_tower(config), pixels)
    if grid is None or kind not in SAME_IN_TEXT | SQUARES_IN_TEXT.keys():
        return []
    if kind in SQUARE_ALONE and grid.rows != grid.columns:
        return []
    squares = grid.in_squares(SQUARES_IN_TEXT[kind](config)) if kind in SQUARES_IN_TEXT else grid
    tiles = range(len(pixels)) if len(pixels) > 1 else (None,)
    return [patch for tile in tiles for patch in _row_by_row(squares, tile)]


def _packed(model: PreTrainedModel, arrays: Mapping[str, Any]) -> list[Patch | None]:
    """The patches that a text holds where the model puts tiles together; None for the end of a row.

    Told by the model itself, which is given the numbers of patches in place of vectors.
    """
    config = model.config
    tower, pixels = _tower(config), _tiles(config, arrays)
    grid, sizes = _grid(tower, pixels), arrays.get("image_sizes")
    first = len(BEFORE_PATCHES.get(tower.model_type, ("unknown", "unknown")))
    if pixels is None or grid is None or sizes is None or len(sizes) != 1:
        return []
    if first != (config.vision_feature_select_strategy == "default"):  # which leaves out one, patch or not
        return []
    patches = [patch for tile in range(len(pixels)) for patch in _row_by_row(grid, tile)]
    numbers = torch.arange(len(patches), dtype=torch.float64).reshape(len(pixels), grid.size, 1)
    (packed,), _ = model.pack_image_features(
        [numbers], sizes, config.vision_feature_select_strategy, image_newline=numbers.new_full((1,), -1)
    )
    return [None if number < 0 else patches[int(number)] for number in packed[:, 0].tolist()]


def _tower(config: PreTrainedConfig) -> PreTrainedConfig:
    """The configuration of what sees the picture."""
    parts = (getattr(config, name, None) for name in ("vision_config", "encoder"))
    return next((part for part in parts if isinstance(part, PreTrainedConfig)), config)


def _tiles(config: PreTrainedConfig, arrays: Mapping[str, Any]) -> torch.Tensor | None:
    """The tiles of one picture `[tiles, channels, height, width]`, mostly one; None for several pictures and videos."""
    pixels, kind = arrays.get("pixel_values"), config.model_type
    if not isinstance(pixels, torch.Tensor):
        return None
    if pixels.ndim == 5 and pixels.shape[0] == 1 and kind in TILES_ARE_SECOND:
        empty = bool((pixels[0] == 0).flatten(1).all(dim=1).any())  # which Idefics takes for filling, and leaves out
        return None if empty else pixels[0]
    return pixels if pixels.ndim == 4 and (pixels.shape[0] == 1 or kind in TILES_ARE_BATCH) else None


def _grid(tower: PreTrainedConfig, pixels: torch.Tensor | None) -> Grid | None:
    """How many patches of the tower's size fit into a picture or a tile of it, down and across."""
    size = getattr(tower, "patch_size", None)
    if pixels is None or size is None:
        return None
    height, width = (size, size) if isinstance(size, int) else size
    return Grid(pixels.shape[2] // height, pixels.shape[3] // width)


def _told_grid(arrays: Mapping[str, Any]) -> Grid | None:
    """The grid of one picture as SigLIP 2 is told it: rows, columns."""
    pixels, shapes = arrays.get("pixel_values"), arrays.get("spatial_shapes")
    if not isinstance(pixels, torch.Tensor) or not isinstance(shapes, torch.Tensor) or pixels.ndim != 3:
        return None
    return Grid(int(shapes[0, 0]), int(shapes[0, 1])) if shapes.shape == (1, 2) and pixels.shape[0] == 1 else None


def _thw(arrays: Mapping[str, Any]) -> Grid | None:
    """The grid of one picture as Qwen2-VL and its kin are told it: frames, rows, columns."""
    grid = arrays.get("image_grid_thw")
    if not isinstance(grid, torch.Tensor) or grid.shape != (1, 3) or int(grid[0, 0]) != 1:
        return None
    return Grid(int(grid[0, 1]), int(grid[0, 2]))


def _merge(config: PreTrainedConfig) -> int:
    return int(config.vision_config.spatial_merge_size)


def _merged(config: PreTrainedConfig, arrays: Mapping[str, Any]) -> list[Patch]:
    """The patches as a tower takes them that merges squares of them, window by window where it has windows."""
    grid, merge = _thw(arrays), _merge(config)
    if grid is None or grid.rows % merge or grid.columns % merge:
        return []
    if config.model_type not in WINDOWED:
        return _in_squares(grid, merge)
    vision = config.vision_config
    side = vision.window_size // merge // vision.patch_size * merge
    windows = [
        [patch for patch in _in_squares(grid, merge) if (patch.row // side, patch.column // side) == window]
        for window in product(range(-(-grid.rows // side)), range(-(-grid.columns // side)))
    ]
    if len(windows) == 1:
        return windows[0]
    return [patch._replace(window=number) for number, window in enumerate(windows) for patch in window]


def _row_by_row(grid: Grid, tile: int | None = None) -> list[Patch]:
    """The patches of a picture, or of a tile of one, as one reads.

    >>> [patch.name for patch in _row_by_row(Grid(2, 2))]
    ['r0,c0', 'r0,c1', 'r1,c0', 'r1,c1']
    """
    return [Patch(row, column, tile) for row, column in product(range(grid.rows), range(grid.columns))]


def _in_squares(grid: Grid, side: int) -> list[Patch]:
    """The patches square by square.

    >>> [patch.name for patch in _in_squares(Grid(2, 4), 2)]
    ['r0,c0', 'r0,c1', 'r1,c0', 'r1,c1', 'r0,c2', 'r0,c3', 'r1,c2', 'r1,c3']
    """
    return [
        Patch(top + row, left + column)
        for top, left in product(range(0, grid.rows, side), range(0, grid.columns, side))
        for row, column in product(range(side), range(side))
    ]
