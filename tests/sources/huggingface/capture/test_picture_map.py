"""Places in the picture that are known once a model runs: shifted windows, and maps that object queries attend to."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from attn_cli.call import Call
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.read.media import read_image
from tests.architectures.tiny import each_of, tiny_model
from tests.media import audio_file, image_file
from tests.program import attn, refused

HEIGHT, WIDTH, PATCH = 52, 76, 4  # 13 x 19 patches, which windows of 2 x 2 don't divide
QUERIES = "detr table-transformer conditional_detr rt_detr rt_detr_v2 pp_doclayout_v3"


class Enough(Exception):
    """Ends a forward pass once the windows are known."""


def places(tokens: tuple[Token, ...], width: int) -> list[int]:
    """The index of each token's place on the map, -1 for padding."""
    return [-1 if token.row is None else token.row * width + int(token.column or 0) for token in tokens]


def windows_by_its_own_code(block: nn.Module, height: int, width: int) -> np.ndarray:
    """The index of each place on the map in each window, -1 for padding: the block's own forward on a map of these."""
    found: list[torch.Tensor] = []

    def note(_: nn.Module, args: Any, keywords: Any) -> None:
        found.append((args or tuple(keywords.values()))[0])
        raise Enough

    norm = getattr(block, "layernorm_before", None)
    channels = norm.weight.shape[0] if norm is not None else 1
    block.layernorm_before = nn.Identity()
    hook = block.attention.register_forward_pre_hook(note, with_kwargs=True)
    index = torch.arange(1.0, height * width + 1)[None, :, None].expand(1, -1, channels)
    with suppress(Enough):
        block(index, (height, width))
    hook.remove()
    block.layernorm_before = norm
    return found[0][..., 0].long().numpy() - 1


@pytest.mark.parametrize("kind", each_of(["swin", "swinv2", "donut-swin", "maskformer-swin"], daily="swin swinv2"))
def test_tokens_of_a_shifted_window_have_the_places_that_they_come_from(kind: str) -> None:
    options = {"embed_dim": 16, "depths": (2, 2), "num_heads": (2, 4), "window_size": 2, "patch_size": PATCH}
    config = transformers.CONFIG_MAPPING[kind](**options)
    model = transformers.AutoModel.from_config(config).eval()
    calls: list[Call] = []
    with capture(model, calls.append), torch.no_grad():
        model(pixel_values=torch.randn(1, 3, HEIGHT, WIDTH))
    rolled = 0
    for path, block in model.named_modules():
        if not hasattr(block, "shift_size"):
            continue
        height, width = (13, 19) if "layers.0." in path else (7, 10)  # its second stage merges 2 x 2
        right = windows_by_its_own_code(block, height, width)
        own = [call for call in calls if call.place.name.startswith(f"{path}.")]
        assert [places(call.keys, width) for call in own] == right.tolist()
        assert all(call.queries == call.keys for call in own)
        rolled += right[0, 0] != 0
    assert rolled == 2  # of four blocks every second one is shifted


def test_windows_that_are_not_shifted_have_their_places_too() -> None:
    config = transformers.VitDetConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, image_size=112, pretrain_image_size=112,
        patch_size=16, window_size=3, window_block_indices=[0],
    )  # fmt: skip
    calls: list[Call] = []
    model = transformers.VitDetModel(config).eval()
    with capture(model, calls.append), torch.no_grad():
        model(pixel_values=torch.randn(1, 3, 112, 112))
    cells = np.pad(np.arange(49).reshape(7, 7), (0, 2), constant_values=-1)  # to 9 x 9
    right = cells.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 9)
    assert [places(call.keys, 7) for call in calls] == right.tolist()


def test_windows_that_nobody_knows_are_numbered() -> None:
    config = transformers.HieraConfig(
        image_size=[64, 64], embed_dim=16, depths=[1, 1, 1], num_heads=[1, 2, 4], num_query_pool=2,
        masked_unit_size=[4, 4], query_stride=[2, 2], patch_size=[7, 7], patch_stride=[4, 4],
    )  # fmt: skip
    calls: list[Call] = []
    model = transformers.HieraModel(config).eval()
    with capture(model, calls.append), torch.no_grad():
        model(pixel_values=torch.randn(1, 3, 64, 64))
    assert calls[3].queries[5].text == "w3,t5"


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
