"""Where queries and keys lie in the picture, where a tower's maps shrink or are cut into windows."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any

from torch import nn

from attn_cli.call import Place
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.anatomy.configuration import configuration_of
from attn_cli.sources.huggingface.anatomy.image_grid import Patch, PatchGrid, row_by_row, vision_config
from attn_cli.sources.huggingface.anatomy.picture_places import Placement

_HALVED = 9  # times at most that a map of patches, or of pixels, is made half as high and wide
_MAPS = ("encoder", "vision", "cross")  # streams whose keys are a map if they are as many: others may be queries


class PictureMap:
    """The maps that a model makes of a picture of `size` (height, width); `places` are where it is in the file's."""

    def __init__(self, model: nn.Module, size: tuple[int, int], places: Sequence[Placement | None]) -> None:
        self.model, self.size, self.places = model, size, places
        patch = getattr(vision_config(configuration_of(model)), "patch_size", 1)
        self._step = max(_pair(patch)) if isinstance(patch, int | tuple | list) else 1
        self._tokens_of = cache(self._tokens)

    def of_keys(self, place: Place, n: int, m: int) -> tuple[Token, ...]:
        """The places of a map of m keys, row by row; () where no step gives as many, or keys are points or channels."""
        others = hasattr(self._module(place.name), "sampling_offsets") or "channel" in place.name
        if others or place.stream not in _MAPS or (n != m and place.stream != "cross"):
            return ()
        return next((self._tokens_of(grid) for grid in self._grids() if grid.size == m), ())

    def of_window(self, place: Place, windows: int, n: int, m: int) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """The places of a window's tokens before its cyclic shift, `w1,t5` where no block says how they are cut."""
        block, number = self._windowed(place.name), place.call % windows
        high, wide = (0, 0) if block is None else _pair(block.window_size)
        cut = high * wide == n == m
        fit = [grid for grid in self._grids() if cut and -(-grid.rows // high) * -(-grid.columns // wide) == windows]
        if len(fit) == 1:
            tokens = self._tokens_of(fit[0], (high, wide), _pair(getattr(block, "shift_size", 0)), number)
            return tokens, tokens
        names = tuple(Token(at, f"w{number},t{at}", piece=number) for at in range(max(n, m)))
        return names[:n], names[:m]

    def _tokens(
        self, grid: PatchGrid, window: tuple[int, int] = (0, 0), shift: tuple[int, int] = (0, 0), number: int = 0
    ) -> tuple[Token, ...]:
        if not window[0]:
            return tuple(patch.labelled(Token(at, ""), self.places) for at, patch in enumerate(row_by_row(grid)))
        high, wide = window
        down, across = -(-grid.rows // high), -(-grid.columns // wide)
        top, left = number // across * high + shift[0], number % across * wide + shift[1]
        tokens = []
        for at, (row, column) in enumerate(product(range(top, top + high), range(left, left + wide))):
            row, column = row % (down * high), column % (across * wide)  # shifted windows go on at the other edge
            if row >= grid.rows or column >= grid.columns:
                tokens.append(Token(at, "[PAD]", special=True, piece=number))
            else:
                patch = Patch(row, column, window=number, region=grid.region(row, column))
                tokens.append(patch.labelled(Token(at, ""), self.places))
        return tuple(tokens)

    def _grids(self) -> Iterator[PatchGrid]:
        for step in (self._step << times for times in range(_HALVED)):
            yield PatchGrid(-(-self.size[0] // step), -(-self.size[1] // step), step, step)

    def _windowed(self, path: str) -> nn.Module | None:
        around = [self._module(".".join(path.split(".")[:end])) for end in range(path.count(".") + 1, 0, -1)]
        cut = [module for module in around if hasattr(module, "window_size")]
        return next((module for module in cut if hasattr(module, "shift_size")), next(iter(cut), None))

    def _module(self, path: str) -> nn.Module | None:
        try:
            return self.model.get_submodule(path)
        except AttributeError:  # a word for what has no module
            return None


def _pair(size: Any) -> tuple[int, int]:
    return (int(size[0]), int(size[-1])) if isinstance(size, tuple | list) else (int(size), int(size))
