"""The start times of audio tokens, for models whose tokens are consecutive frames of the audio."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from transformers import PreTrainedModel

from attn_cli.prompt import Token
from attn_cli.sources.huggingface.compat import audio_lengths
from attn_cli.sources.huggingface.known_types import type_of
from attn_cli.sources.huggingface.read.media import Audio


def frame_tokens(model: PreTrainedModel, arrays: Mapping[str, Any], extractor: Any | None) -> tuple[Token, ...]:
    """The tokens that a model makes of audio, one for each position, labelled by the second in which each begins.

    A token may hold several columns of the spectrogram. () where the sampling rate or the columns per token are
    unknown.

    arrays     the forward's arguments, the audio among them
    extractor  the feature extractor that made the arrays and has their sampling rate; None for arrays from elsewhere
    """
    rate = getattr(extractor, "sampling_rate", None)
    config = model.config
    samples, spectrum = (_of_one_example(arrays.get(name)) for name in ("input_values", "input_features"))
    if rate and samples is not None and samples.ndim == 2 and hasattr(config, "conv_stride"):
        count = audio_lengths(model, samples.shape[1])
        return _frames(count, prod(config.conv_stride) / rate)
    frames = type_of(config).frames_per_token
    if rate and spectrum is not None and spectrum.ndim == 3 and frames:
        return _frames(spectrum.shape[2] // frames, frames * extractor.hop_length / rate)  # type: ignore[union-attr]
    return ()


def silence_notes(frames: Sequence[Token], audio: Audio | None) -> tuple[str, ...]:
    """A note on the tokens after the end of the audio, where a processor pads it with silence; else ().

    frames  the audio's tokens, labelled by the second in which each begins; () where these times are unknown
    """
    if audio is None or not frames:
        return ()
    seconds = audio.seconds
    first = next((frame.index for frame in frames if float(frame.text.removesuffix("s")) >= seconds), None)
    if first is None:
        return ()
    return (f"the audio ends at {seconds:.2f}s: tokens from {first} on are silence that the processor adds",)


def _of_one_example(array: Any) -> torch.Tensor | None:
    """The array if it has one example in its batch, else None."""
    return array if isinstance(array, torch.Tensor) and array.ndim > 1 and array.shape[0] == 1 else None


def _frames(count: int, seconds: float) -> tuple[Token, ...]:
    """`count` frames of so many seconds each, labelled with enough digits to tell one from the next.

    >>> [token.text for token in _frames(3, 0.02)]
    ['0.00s', '0.02s', '0.04s']
    """
    digits = 2 if round(seconds * 100, 6).is_integer() else 3
    return tuple(Token(at, f"{at * seconds:.{digits}f}s") for at in range(count))
