"""Decoders of other things than text: object queries, series, speech."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from attn_cli.sources.huggingface.read.media import read_image
from tests.architectures.tiny import tiny_model
from tests.media import audio_file, image_file
from tests.program import attn, refused


@pytest.fixture
def detr(tmp_path: Path) -> Path:
    model = tiny_model("detr", "tiny")
    model.save_pretrained(tmp_path / "detr")
    processor = transformers.DetrImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 128})
    processor.save_pretrained(tmp_path / "detr")
    return tmp_path / "detr"


@torch.no_grad()
def test_a_detr_sees_an_image_as_it_does_anywhere(detr: Path, tmp_path: Path) -> None:
    cat = image_file(tmp_path / "cat.png", bright=(1, 2), columns=8)  # 32 x 64 pixels, read as 64 x 128
    run = attn("matrix", "-m", detr, "--image", cat, "-o", tmp_path / "x.npz")
    assert run.code == 0 and "patches of the picture have no map (detr)" in run.errors
    found = dict(np.load(tmp_path / "x.npz"))
    given = transformers.AutoImageProcessor.from_pretrained(detr)(read_image(str(cat)), return_tensors="pt")
    model = transformers.AutoModel.from_pretrained(detr, attn_implementation="eager").eval()
    returned = model(**given, output_attentions=True)
    for stream in ("encoder", "decoder", "cross"):
        own = returned[f"{stream}_attentions"]
        np.testing.assert_allclose(found[f"{stream}.weights"], torch.cat(own).numpy(), atol=1e-5)
    assert found["decoder.tokens"].tolist() == [str(query) for query in range(6)]
    refused(attn("matrix", "-m", detr, "--image", cat, "--pair", "a"), 2, "--pair and --image")


def test_a_decoder_of_other_things_is_refused_or_run(tmp_path: Path) -> None:
    series = tiny_model("time_series_transformer", "tiny")
    series.save_pretrained(tmp_path / "series")
    tone = audio_file(tmp_path / "tone.wav")
    refused(attn("top", "-m", tmp_path / "series", "--audio", tone), 2, "takes no --audio", "it reads past_values")
    speech = tiny_model("speecht5", "tiny")
    speech.save_pretrained(tmp_path / "speech")
    transformers.SpeechT5FeatureExtractor().save_pretrained(tmp_path / "speech")
    run = attn("heads", "-m", tmp_path / "speech", "--audio", tone, "--json")
    assert {layer["stream"] for layer in run.json["tables"]["layers"]} == {"encoder", "decoder", "cross"}
