"""An image or audio from a file, for a model's processor."""

import io
import warnings
import wave
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attn_cli.errors import InputError, optional
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import nonempty_file
from attn_cli.sources.memory import check_memory
from attn_cli.text import excerpt

if TYPE_CHECKING:
    from PIL.Image import Image

_IMAGES = "is the file whole? PNG, JPEG, WebP, GIF, BMP and TIFF are known"
# Samples a second: from below a telephone's to beyond any microphone's. The others are made by damaged headers.
_RATES = range(1_000, 1_000_001)


@dataclass(frozen=True, eq=False)
class Audio:
    """One channel of audio: float32 `[n]`, between -1 and 1, at `rate` samples per second."""

    samples: np.ndarray
    rate: int
    file: str

    def at(self, rate: int) -> "Audio":
        """The audio, resampled to `rate` samples per second."""
        if rate == self.rate:
            return self
        need = f"{self.file} has {self.rate:,} samples a second, the model wants {rate:,}, which needs"
        soxr = optional("soxr", "audio", need)
        return Audio(soxr.resample(self.samples, self.rate, rate), rate, self.file)


@dataclass(frozen=True, eq=False)
class Media:
    """Images and audio, at least one of them; `files` by kind: "image" ("image 1", "image 2" ...) and "audio"."""

    images: tuple["Image", ...]
    audio: Audio | None
    files: Mapping[str, str]

    @property
    def counts(self) -> dict[str, int]:
        """How many files there are of each kind that was given: "image", "audio"."""
        counts = {"image": len(self.images), "audio": int(self.audio is not None)}
        return {kind: count for kind, count in counts.items() if count}


def read_media(image: str | Sequence[str] | None, audio: str | None) -> Media | None:
    """The images and audio in these files; None if neither is given."""
    images = [image] if isinstance(image, str) else list(image or ())
    names = ["image"] if len(images) == 1 else [f"image {number}" for number in range(1, len(images) + 1)]
    files = dict(zip(names, images, strict=True)) | ({} if audio is None else {"audio": audio})
    if not files:
        return None
    return Media(tuple(map(read_image, images)), None if audio is None else read_audio(audio), files)


def read_image(file: str) -> "Image":
    """The image in RGB, rotated as its EXIF orientation says; the first frame if it has several."""
    optional("PIL", "image", "--image needs")
    from PIL import Image, ImageOps

    path, label = nonempty_file(file), excerpt(file)
    with parse_errors(label, _IMAGES), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Pillow says of damaged metadata
        with Image.open(io.BytesIO(path.read_bytes())) as image:  # from a file Pillow takes memory for any stated size
            check_memory(8 * image.width * image.height, f"the pixels of {label}", "make it smaller first")
            return ImageOps.exif_transpose(image).convert("RGB")


def read_audio(file: str) -> Audio:
    """The mean of the channels of a .wav file of 16 or 32 bits per sample."""
    path, label = nonempty_file(file), excerpt(file)
    with parse_errors(f"{label} is not a .wav file and", _convert(file)), wave.open(str(path)) as wav:
        width, channels, rate = wav.getsampwidth(), wav.getnchannels(), wav.getframerate()
        # not more than the file can hold, whatever its header says
        data = wav.readframes(min(wav.getnframes(), path.stat().st_size // max(1, width * channels)))
    if width not in (2, 4):
        raise InputError(f"{label} has {8 * width} bits a sample: attn reads 16 and 32", _convert(file))
    if rate not in _RATES:
        raise InputError(f"{label} states {rate:,} samples a second", "1,000 to 1,000,000 are read: is it damaged?")
    whole = np.frombuffer(data[: len(data) // (width * channels) * (width * channels)], f"<i{width}")
    if not whole.size:
        raise InputError(f"{label} holds no audio: its header is all there is", "is the download complete?")
    samples = (whole / float(1 << (8 * width - 1))).astype(np.float32)
    return Audio(samples.reshape(-1, channels).mean(axis=1), rate, file)


def _convert(file: str, rate: int = 16_000) -> str:
    return f"ffmpeg -i {file} -ar {rate} -ac 1 -c:a pcm_s16le sound.wav"
