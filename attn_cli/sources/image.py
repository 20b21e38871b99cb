"""An image from a file, ready for a model's own processor."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from attn_cli.errors import InputError, LimitError, LoadError, reason

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

    path = Path(file).expanduser()
    try:
        if path.is_file() and path.stat().st_size == 0:
            raise InputError(f"{file} is empty", "is the download complete?")
        with Image.open(path) as image:
            return ImageOps.exif_transpose(image).convert("RGB")
    except UnidentifiedImageError:
        raise InputError(f"{file} is not a picture", _HINT) from None
    except Image.DecompressionBombError as error:
        raise LimitError(f"{file} is too large: {error}", "make it smaller first") from error
    except (OSError, ValueError, SyntaxError) as error:  # SyntaxError: Pillow's error for a broken PNG
        raise InputError(f"can't read {file}: {reason(error)}", "check the name, and that the file is whole") from error
