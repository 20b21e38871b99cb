"""Audio from a .wav file, as samples for a model's processor."""

import wave
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from attn_cli.errors import InputError
from attn_cli.sources.files.parse_errors import parse_errors
from attn_cli.sources.files.paths import nonempty_file
from attn_cli.text import excerpt

# Samples a second: from below a telephone's to beyond any microphone's. The others are made by damaged headers.
_RATES = range(1_000, 1_000_001)


@dataclass(frozen=True, eq=False)
class Audio:
    """One channel of audio.

    samples  float32 `[n]`, between -1 and 1
    rate     in samples per second
    file     its file, for messages
    """

    samples: np.ndarray
    rate: int
    file: str

    def at(self, rate: int) -> "Audio":
        """The same audio, resampled to `rate` samples per second.

        Raises InputError if the rates differ and the package soxr is missing: simpler resampling would alias high
        frequencies to low ones.
        """
        if rate == self.rate:
            return self
        if rate not in _RATES:
            raise InputError(f"the model wants {rate:,} samples a second", "is its preprocessor_config.json whole?")
        if find_spec("soxr") is None:
            raise InputError(
                f"{self.file} has {self.rate:,} samples a second, the model wants {rate:,}",
                f"pip install 'attn-cli[audio]', or: {_convert(self.file, rate)}",
            )
        import soxr  # an optional package

        return Audio(soxr.resample(self.samples, self.rate, rate), rate, self.file)


def read_audio(file: str) -> Audio:
    """The mean of the channels of a .wav file of 8, 16, 24 or 32 bits per sample.

    Raises InputError for a file of another format or compression, and for one without samples.
    """
    path, label = nonempty_file(file), excerpt(file)
    with (
        parse_errors(f"{label} is not a .wav file of whole numbers and", _convert(file)),
        wave.open(str(path)) as wav,
    ):
        width, channels, rate = wav.getsampwidth(), wav.getnchannels(), wav.getframerate()
        # not more than the file can hold, whatever its header says
        data = wav.readframes(min(wav.getnframes(), path.stat().st_size // max(1, width * channels)))
    if width > 4:
        raise InputError(f"{label} has {8 * width} bits a sample; 8, 16, 24 and 32 are read", _convert(file))
    if rate not in _RATES:
        raise InputError(f"{label} states {rate:,} samples a second", "1,000 to 1,000,000 are read: is it damaged?")
    data = data[: len(data) // (width * channels) * (width * channels)]
    if not data:
        raise InputError(f"{label} holds no audio: its header is all there is", "is the download complete?")
    return Audio(_samples(data, width).reshape(-1, channels).mean(axis=1), rate, file)


def _samples(data: bytes, width: int) -> np.ndarray:
    """Little-endian integers of `width` bytes as float32 `[n]` between -1 and 1; single bytes are unsigned.

    >>> _samples(bytes([0, 128, 192]), 1).tolist(), _samples(bytes([0, 0, 64]), 3).tolist()
    ([-1.0, 0.0, 0.5], [0.5])
    """
    if width == 1:
        return (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / 128
    if width == 3:  # NumPy has no 24-bit integers: a zero byte at the low end makes them 32-bit
        four = np.zeros((len(data) // 3, 4), np.uint8)
        four[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        data, width = four.tobytes(), 4
    whole = np.frombuffer(data, f"<i{width}")
    return (whole / float(1 << (8 * width - 1))).astype(np.float32)


def _convert(file: str, rate: int = 16_000) -> str:
    """A hint with the ffmpeg command that converts `file` to a readable one."""
    return f"ffmpeg -i {file} -ar {rate} -ac 1 -c:a pcm_s16le sound.wav"
