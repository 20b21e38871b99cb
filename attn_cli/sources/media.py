"""An image, audio, or both, beside a text or in its place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attn_cli.sources.huggingface.read.media import Audio, read_audio
from attn_cli.sources.image import read_image

if TYPE_CHECKING:
    from PIL.Image import Image

# The commands that take images and audio, for hints.
MEDIA_COMMANDS = "attn top, matrix, heads, inspect and layers"


@dataclass(frozen=True, eq=False)
class Media:
    """An image and audio, at least one of them.

    image  None where none was given
    audio  None where none was given
    files  their file names by kind: "image", "audio"
    """

    image: "Image | None"
    audio: Audio | None
    files: Mapping[str, str]


def read_media(image: str | None, audio: str | None) -> Media | None:
    """The media in these files; None if neither is given. Raises what `read_image` and `read_audio` raise."""
    files = {kind: file for kind, file in (("image", image), ("audio", audio)) if file is not None}
    if not files:
        return None
    return Media(None if image is None else read_image(image), None if audio is None else read_audio(audio), files)
