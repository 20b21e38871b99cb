"""What a model reads beside a text: a picture, a sound, or both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attn_cli.sources.audio import Sound, read_sound
from attn_cli.sources.image import read_picture

if TYPE_CHECKING:
    from PIL.Image import Image

# The commands that take pictures and sounds, for hints.
MEDIA_COMMANDS = "attn top, matrix, heads, inspect and layers"


@dataclass(frozen=True, eq=False)
class Media:
    """A picture and a sound, None for what was not given; `files` says by kind where they come from."""

    picture: "Image | None"
    sound: Sound | None
    files: Mapping[str, str]


def read_media(image: str | None, audio: str | None) -> Media | None:
    """What the files hold; None if there is no file. Raises as `read_picture` and `read_sound`."""
    files = {kind: file for kind, file in (("image", image), ("audio", audio)) if file is not None}
    if not files:
        return None
    return Media(None if image is None else read_picture(image), None if audio is None else read_sound(audio), files)
