"""A Whisper whose heads do what they were made for: one hears which word is spoken, one counts rows and frames.

Six words and an end are tones of seven pitches, one after the other. Encoder vectors are the eight mel bands and the
place of the frame, decoder vectors the token and its place; nothing else is written into them.
"""

import wave
from pathlib import Path

import numpy as np
import torch
import transformers

from tests.media import RATE, SPECIAL, WORDS, saved, tokenizer

SPOKEN = ("a", "photo", "of", "cat", "the", "sat")
SECONDS = 0.14  # of each word
HEARS, COUNTS = (1, 2), (0, 1)  # layer and head
_BANDS, _PLACES = 8, 8  # numbers of a vector that say the band of a tone, and the place of a row or frame
_TOKENS = len(SPOKEN) + 1


def _id(word: str) -> int:
    return len(SPECIAL) + WORDS.index(word)


def extractor() -> transformers.WhisperFeatureExtractor:
    return transformers.WhisperFeatureExtractor(feature_size=_BANDS, chunk_length=1, sampling_rate=RATE)


@torch.no_grad()
def planted_whisper(folder: Path) -> Path:
    """The model in a folder; its generation_config names no alignment heads."""
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=64, num_mel_bins=_BANDS, d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=16, decoder_ffn_dim=16, max_source_positions=50,
        max_target_positions=32, decoder_start_token_id=1, bos_token_id=1, eos_token_id=2, pad_token_id=2,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config)
    for name, weights in model.named_parameters():  # layers write nothing
        if any(part in name for part in ("out_proj", "fc2", "conv")):
            weights.zero_()
    encoder, decoder = model.model.encoder, model.model.decoder
    for band in range(_BANDS):
        encoder.conv1.weight[band, band, 1] = 4
        encoder.conv2.weight[band, band, 1] = 4
    places = range(32 - _PLACES, 32)
    encoder.embed_positions.weight.zero_()
    decoder.embed_positions.weight.zero_()
    decoder.embed_tokens.weight.zero_()
    for frame in range(50):
        encoder.embed_positions.weight[frame, places[frame * _PLACES // 50]] = 4
    for row in range(_PLACES):
        decoder.embed_positions.weight[row, places[row]] = 4
    for at, token in enumerate([1, *map(_id, SPOKEN)]):
        decoder.embed_tokens.weight[token, at] = 4
    for layer, of_layer in enumerate(decoder.layers):
        heard = of_layer.encoder_attn
        for part in (heard.q_proj, heard.k_proj):
            part.weight.mul_(0.5)
            part.bias.zero_() if part.bias is not None else None
        for planted, first, targets in ((HEARS, 0, range(_TOKENS)), (COUNTS, places[0], range(_PLACES))):
            if planted[0] == layer:
                rows = slice(8 * planted[1], 8 * planted[1] + 8)
                heard.q_proj.weight[rows] = heard.k_proj.weight[rows] = 0
                for at in targets:  # the row of a token predicts the next, and reads its tone
                    heard.q_proj.weight[8 * planted[1] + at, first + at] = 4
                    heard.k_proj.weight[8 * planted[1] + at, first + at] = 4
    return saved(model, folder, extractor(), tokenizer(), strength=1)


def spoken_file(file: Path) -> Path:
    """The six words and the end as tones, each in the middle of a mel band."""
    filters = np.asarray(extractor().mel_filters)
    pitches = filters[:, :_TOKENS].argmax(axis=0) * RATE / 2 / (len(filters) - 1)
    times = np.arange(round(_TOKENS * SECONDS * RATE)) / RATE
    tone = np.sin(2 * np.pi * pitches[np.minimum((times / SECONDS).astype(int), _TOKENS - 1)] * times)
    with wave.open(str(file), "wb") as opened:
        opened.setnchannels(1)
        opened.setsampwidth(2)
        opened.setframerate(RATE)
        opened.writeframes(np.round(tone * 20000).astype("<i2").tobytes())
    return file
