"""The patches of an image among the tokens, laid out as the image is."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attn_cli.prompt import Token

_FEWEST = 4


class ImageGrid(NamedTuple):
    """The index of each patch of an image among the tokens `[rows, columns]`, and which image it is; "" for one."""

    cells: np.ndarray
    name: str = ""


def image_grids(tokens: Sequence[Token]) -> list[ImageGrid]:
    """The grid of the patches of each image whose patches are all among the tokens."""
    images: dict[int | None, dict[tuple[int, int], list[int]]] = {}
    for at, token in enumerate(tokens):
        if token.row is not None:
            images.setdefault(token.image, {}).setdefault((token.row, token.column or 0), []).append(at)
    grids = []
    for image, places in images.items():
        shape = tuple(1 + last for last in np.max(list(places), axis=0))
        patches = [at for place in sorted(places) for at in places[place]]
        if len(patches) == len(places) == np.prod(shape) >= _FEWEST:
            grids.append(ImageGrid(np.reshape(patches, shape), "" if image is None else f"image {image}"))
    return grids
