"""An image from a file, ready for a model's own processor."""

import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING

from attn_cli.errors import InputError, LimitError, LoadError
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import nonempty_file
from attn_cli.sources.memory import free_memory
from attn_cli.text import excerpt

if TYPE_CHECKING:
    from PIL.Image import Image

_HINT = "PNG, JPEG, WebP, GIF, BMP and TIFF are known"


def read_image(file: str) -> "Image":
    """The image in RGB, rotated as its EXIF orientation says; the first frame if it has several.

    Raises LoadError where the package that reads images is missing, InputError for a file that holds none, LimitError
    for an image of too many pixels.
    """
    if find_spec("PIL") is None:
        raise LoadError("--image needs the package pillow", "pip install 'attn-cli[image]'")
    from PIL import Image, ImageOps, UnidentifiedImageError  # an optional package

    path, label = nonempty_file(file), excerpt(file)
    with parse_errors(label, "is the file whole?"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Pillow says of damaged metadata
        try:
            with Image.open(path) as image:
                _check_pixels(image.width * image.height, label)
                return ImageOps.exif_transpose(image).convert("RGB")
        except UnidentifiedImageError:
            raise InputError(f"{label} is not an image", _HINT) from None
        except Image.DecompressionBombError:
            raise LimitError(f"{label} has too many pixels", "make it smaller first") from None


def _check_pixels(pixels: int, label: str) -> None:
    """Refuse an image whose pixels don't fit into the free memory: 3 bytes each, and twice where it is turned."""
    free = free_memory()
    if free is not None and 8 * pixels > free:
        raise LimitError(f"{label} has {pixels:,} pixels, more than fit into memory", "make it smaller first")
