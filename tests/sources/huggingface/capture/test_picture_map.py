"""Maps of a picture that object queries attend to."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from attn_cli.call import Call
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.read.media import read_image
from tests.architectures.tiny import each_of, tiny_model
from tests.media import audio_file, image_file
from tests.program import attn, refused

QUERIES = "detr table-transformer conditional_detr rt_detr rt_detr_v2 pp_doclayout_v3"


@pytest.mark.parametrize("kind", each_of(QUERIES.split(), daily="detr rt_detr"))
def test_object_queries_attend_to_the_places_of_the_feature_map(kind: str) -> None:
    model = tiny_model(kind, "tiny")
    maps: list[torch.Tensor] = []
    path = "input_projection" if hasattr(model, "input_projection") else "encoder_input_proj.2"
    hook = model.get_submodule(path).register_forward_hook(lambda *args: maps.append(args[-1]))
    calls: list[Call] = []
    with capture(model, calls.append), torch.no_grad():
        model(pixel_values=torch.randn(1, 3, 96, 160))
    hook.remove()
    _, _, rows, columns = maps[0].shape
    assert (rows, columns) == (3, 5)
    on_map = [call for call in calls if call.m == rows * columns]
    assert {call.place.stream for call in on_map} >= {"encoder"}
    for call in on_map:
        assert [(token.row, token.column) for token in call.keys] == [divmod(at, columns) for at in range(call.m)]
    others = [call for call in calls if call.place.stream != "encoder"]
    assert others and all(token.row is None for call in others for token in call.queries)
    sampled = [call for call in calls if call.place.stream == "cross" and call not in on_map]
    assert all(token.row is None for call in sampled for token in call.keys)


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
    assert (run.code, run.errors) == (0, "")
    found = dict(np.load(tmp_path / "x.npz"))
    given = transformers.AutoImageProcessor.from_pretrained(detr)(read_image(str(cat)), return_tensors="pt")
    model = transformers.AutoModel.from_pretrained(detr, attn_implementation="eager").eval()
    returned = model(**given, output_attentions=True)
    for stream in ("encoder", "decoder", "cross"):
        own = returned[f"{stream}_attentions"]
        np.testing.assert_allclose(found[f"{stream}.weights"], torch.cat(own).numpy(), atol=1e-5)
    assert found["cross.key_tokens"].tolist() == [f"r{row},c{column}" for row in range(2) for column in range(4)]
    assert found["decoder.tokens"].tolist() == [str(query) for query in range(6)]
    shown = attn("matrix", "-m", detr, "--image", cat, "-l", "1", "-H", "2", "-t", "4").text
    assert "layer 1 cross head 2 · weights of 4 4 · 2 x 4" in shown
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
