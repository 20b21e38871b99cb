"""What a processor cuts is said: the end of audio, the edges of a picture, the end of a text; and nothing else is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from PIL import Image

from attn_cli.sources.huggingface.read.cuts import audio_notes, text_notes
from attn_cli.sources.huggingface.read.tokenize import aligned
from tests.media import KINDS, audio_file, tokenizer
from tests.program import attn

LONG = np.random.default_rng(1).normal(0, 0.1, 16_000 * 12).astype(np.float32)  # 12 s


@pytest.mark.parametrize(
    ("extractor", "heard"),
    [
        (transformers.WhisperFeatureExtractor(chunk_length=5), 5.0),
        (transformers.WhisperFeatureExtractor(), None),  # hears 30 s
        (transformers.ASTFeatureExtractor(), 10.255),  # 1024 frames, each 10 ms after the one before and 25 ms long
        (transformers.Wav2Vec2FeatureExtractor(), None),
        (transformers.SeamlessM4TFeatureExtractor(), None),
    ],
    ids=lambda value: type(value).__name__ if value is not None else "all",
)
def test_audio_is_heard_as_far_as_its_extractor_says(extractor: Any, heard: float | None) -> None:
    notes = audio_notes(LONG, 16_000, lambda x: dict(extractor(x, sampling_rate=16_000, return_tensors="pt")))
    if heard is None:
        assert notes == ()
        return
    assert notes[0].endswith(" of 12.00 s: its processor cuts the audio")
    assert float(notes[0].split("-")[1].split()[0]) == pytest.approx(heard, abs=0.01)


def test_a_part_at_random_is_said_to_be_one() -> None:
    clap = transformers.ClapFeatureExtractor()  # 10 s of longer audio, drawn anew each time
    notes = audio_notes(np.tile(LONG, 5), 48_000, lambda x: dict(clap(x, sampling_rate=48_000, return_tensors="pt")))
    assert len(notes) == 1 and "at random" in notes[0]


def test_a_whisper_says_how_much_it_heard(tmp_path: Path) -> None:
    folder = KINDS["whisper"](tmp_path / "whisper")  # of one second
    for seconds, said in ((2.5, ["heard 0-1.00 s of 2.50 s: its processor cuts the audio"]), (0.9, [])):
        tone = audio_file(tmp_path / "tone.wav", seconds=seconds)
        run = attn("heads", "-m", folder, "--audio", tone, "--pair", "the cat", "--json")
        assert [note for note in run.json["warnings"] if "heard" in note] == said


@pytest.mark.parametrize(
    ("kind", "size", "seen"), [("clip", (60, 80), True), ("clip", (60, 60), False), ("vit", (60, 80), False)]
)
def test_a_crop_says_what_is_left_of_the_picture(kind: str, size: tuple[int, int], seen: bool, tmp_path: Path) -> None:
    folder = KINDS[kind](tmp_path / kind)
    pixels = np.random.default_rng(0).integers(0, 255, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    run = attn("heads", *(["the cat"] if kind == "clip" else []), "-m", folder, "--image", tmp_path / "x.png", "--json")
    notes = run.json["warnings"]
    assert len(notes) == seen
    for note in notes:  # 60 of 80 columns, and what the filter reaches of those beside them: 2 of 32 pixels each way
        assert note.endswith("% of the picture: its processor crops it") and 75 <= int(note[5:7]) <= 84


def test_a_text_says_where_it_is_cut() -> None:
    words, text = tokenizer(), "the cat sat what is here ?"
    for length, said in ((6, ("read 16 of 26 characters: the text is cut",)), (9, ())):
        ids = words(text, truncation=True, max_length=length, return_tensors="pt")["input_ids"]
        tokens, _ = aligned(words, text, ids[0].tolist(), add_special_tokens=True)
        assert [token.id for token in tokens] == ids[0].tolist()
        assert [text[token.start : token.end] for token in tokens[1:5]] == ["the", "cat", "sat", "what"]
        assert text_notes(text, tokens) == said
