"""Where in a picture each tile lies that a processor makes of it: asked by pictures whose colours say their places."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from attn_cli.picture import Box

if TYPE_CHECKING:
    from PIL.Image import Image

_DARK, _LIGHT = 16, 240
_FEWEST = 2  # rows or columns of pixels that say how large a pixel is
_EDGE = 0.1  # of them at each end are left out where there are enough: filters bend there
_SURE = 0.98  # of the pixels must lie where rows and columns say
_PADDED = 0.1  # of the largest difference between light and dark: padding has less

TilesOfPicture = Callable[["Image"], torch.Tensor | None]


class Placement(NamedTuple):
    """A tile's `top` and `left` edge in the picture's pixels; one of its pixels is `down` times `across` of these."""

    top: float
    left: float
    down: float
    across: float

    def box(self, inner: Box) -> Box:
        """A rectangle in the tile's pixels as one in the picture's."""
        return Box(
            self.top + self.down * inner.top,
            self.left + self.across * inner.left,
            self.top + self.down * inner.bottom,
            self.left + self.across * inner.right,
        )


def placements(height: int, width: int, tiles_of_picture: TilesOfPicture) -> tuple[Placement | None, ...]:
    """Where each tile is in a picture of that size; None for a tile that is not a plain part of it."""
    down, across = np.mgrid[0:height, 0:width]
    ramp = np.empty((height, width, 3), np.uint8)
    ramp[..., 0] = np.rint((across + 0.5) / width * 255)
    ramp[..., 1] = np.rint((down + 0.5) / height * 255)
    ramp[..., 2] = ramp[..., 0]  # some processors swap red and blue
    plain = np.ones_like(ramp)
    made = [_tiles(tiles_of_picture, pixels) for pixels in (plain * _DARK, plain * _LIGHT, ramp)]
    dark, light, ramped = made
    if dark is None or light is None or ramped is None or not dark.shape == light.shape == ramped.shape:
        return ()
    tiles = zip(dark, light, ramped, strict=True)
    return tuple(_placement(*tile, height=height, width=width) for tile in tiles)


def _tiles(tiles_of_picture: TilesOfPicture, pixels: np.ndarray) -> np.ndarray | None:
    from PIL import Image  # an optional package

    tiles = tiles_of_picture(Image.fromarray(pixels))
    return None if tiles is None or tiles.ndim != 4 or tiles.shape[1] != 3 else tiles.double().numpy()


def _placement(dark: np.ndarray, light: np.ndarray, ramp: np.ndarray, *, height: int, width: int) -> Placement | None:
    span = light - dark
    seen = (np.abs(span) > _PADDED * max(np.abs(span).max(), 1e-9)).all(axis=0)
    if not seen.any():
        return None
    level = (ramp - dark) / np.where(span == 0, 1, span) * (_LIGHT - _DARK) + _DARK
    across = _line(level[0] / 255 * width, seen, width)
    down = _line(level[1].T / 255 * height, seen.T, height)
    return None if across is None or down is None else Placement(down[0], across[0], down[1], across[1])


def _line(places: np.ndarray, seen: np.ndarray, size: int) -> tuple[float, float] | None:
    """The picture's coordinate of the tile's first edge, and what each column adds, of the coordinates `[h, w]`."""
    columns = np.flatnonzero(seen.any(axis=0))
    inner = columns[(edge := int(len(columns) * _EDGE)) : len(columns) - edge]
    if len(inner) < _FEWEST:
        return None
    counts = seen[:, inner].sum(axis=0)
    means = np.where(seen, places, 0)[:, inner].sum(axis=0) / counts
    step, first = np.polyfit(inner + 0.5, means, 1)
    off = np.abs(places - (first + step * (np.arange(places.shape[1]) + 0.5)))[seen]
    bound = max(2.0, 2 * abs(step), size / 100)
    return None if step <= 0 or np.mean(off <= bound) < _SURE else (float(first), float(step))


def box_of(region: tuple[int, Box] | None, places: Sequence[Placement | None]) -> Box | None:
    """The part of the picture that a region of a tile shows; None for no region or a tile without placement."""
    if region is None or region[0] >= len(places) or (place := places[region[0]]) is None:
        return None
    return place.box(region[1])
