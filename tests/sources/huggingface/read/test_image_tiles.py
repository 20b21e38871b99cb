"""Images that a tower sees in tiles or windows: the patch that changes is the one that is named."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.read.image_tokens import tower_tokens, with_patches
from attn_cli.sources.huggingface.read.tokenize import labels
from tests.architectures.tiny import each_of, tiny_model

COLUMNS = 10  # of the patches of a Qwen2.5-VL, which come one after the other in squares of 2 x 2
TOLD = 6  # of those of an LFM2-VL, which come row by row, three more to fill them up


class Case(NamedTuple):
    """The inputs of a type, with `places` for the image in its text; every `square` x `square` patches are one."""

    shape: tuple[int, ...]
    places: int
    square: int = 1
    more: dict[str, list[list[int]]] = {}  # noqa: RUF012  (nobody changes it)


CASES = {
    "qwen2_5_vl": Case((6 * COLUMNS, 384), 3 * 5, 2, {"image_grid_thw": [[1, 6, COLUMNS]]}),  # windows of 4 x 4
    "internvl": Case((3, 3, 56, 56), 3 * 2 * 2, 2),
    "idefics3": Case((1, 3, 3, 32, 32), 3 * 2 * 2, 2),
    "smolvlm": Case((1, 3, 3, 32, 32), 3 * 2 * 2, 2),
    "mistral3": Case((1, 3, 32, 48), 2 * 3, 2, {"image_sizes": [[32, 48]]}),
    "aya_vision": Case((3, 3, 32, 32), 3 * 2 * 2, 2),
    "cohere2_vision": Case((3, 3, 32, 32), 3 * 2 * 2, 2),
    "deepseek_vl": Case((1, 3, 32, 32), 4 * 4),
    "lfm2_vl": Case(
        (1, 4 * TOLD + 3, 192), 2 * 3, 2, {"spatial_shapes": [[4, TOLD]], "pixel_attention_mask": [[1] * 24 + [0] * 3]}
    ),
    # 4 x 4 patches of the whole, then tiles of 4 x 8, of which 2 x 8 are no padding, with the end of each row.
    "llava_next": Case((1, 3, 3, 32, 32), 4 * 4 + 2 * (8 + 1), 1, {"image_sizes": [[20, 64]]}),
}


def given(kind: str) -> tuple[PreTrainedModel, dict[str, Any]]:
    """A model of the type with a tower that doesn't mix its patches, and what it reads."""
    model, case = tiny_model(kind, "tiny"), CASES[kind]
    with torch.no_grad():
        for name, weights in model.named_parameters():
            mixing = any(x in name for x in ("out_proj", "attn.proj", "o_proj", "projection_layer"))
            if mixing and ("vision" in name or "visual" in name):
                weights.zero_()
    mark = model.config.image_token_id
    ids = torch.tensor([[9, 21, *[mark] * case.places, 33, 45]])
    pixels = torch.randn(case.shape, generator=torch.Generator().manual_seed(1))
    more = {name: torch.tensor(value) for name, value in case.more.items()}
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": pixels, **more}


def brighter(pixels: torch.Tensor, side: int, tile: int, row: int, column: int) -> torch.Tensor:
    pixels = pixels.clone()
    if pixels.ndim == 2:
        pixels[(row // 2 * (COLUMNS // 2) + column // 2) * 4 + row % 2 * 2 + column % 2] += 1.5
    elif pixels.ndim == 3:
        pixels[0, row * TOLD + column] += 1.5
    else:
        tiles = pixels[0] if pixels.ndim == 5 else pixels
        tiles[tile, :, row * side : (row + 1) * side, column * side : (column + 1) * side] += 1.5
    return pixels


def keys_of(model: PreTrainedModel, inputs: dict[str, Any], stream: str) -> tuple[list[Token], np.ndarray]:
    """Labels and contents of the keys of a stream's first layer, over all calls of its module."""
    tower = {"vision": tower_tokens(model.config, inputs)}
    text = with_patches(labels(None, inputs["input_ids"]), model, inputs)
    tokens: list[Token] = []
    keys: list[np.ndarray] = []

    def visit(call: Call) -> None:
        if isinstance(call, AttentionCall) and (call.place.stream, call.place.layer) == (stream, 0):
            assert call.queries == call.keys
            assert [token.index for token in call.keys] == list(range(len(call.keys)))
            tokens.extend(call.keys)
            keys.append(call.k.numpy().swapaxes(0, 1).reshape(len(call.keys), -1))

    with torch.no_grad(), capture(model, visit, texts=[text], others=[tower]):
        model(**inputs)
    return tokens, np.concatenate(keys)


def changed(model: PreTrainedModel, inputs: dict[str, Any], pixels: torch.Tensor, stream: str) -> list[str]:
    """Labels of the keys that change with these pixels."""
    tokens, before = keys_of(model, inputs, stream)
    _, after = keys_of(model, {**inputs, "pixel_values": pixels}, stream)
    return [token.text for token, x in zip(tokens, np.abs(after - before).max(axis=1), strict=True) if x > 1e-5]


def size_of(model: PreTrainedModel) -> int:
    size = model.config.vision_config.patch_size
    return int(size if isinstance(size, int) else size[0])


@pytest.mark.parametrize("kind", each_of(CASES, daily="qwen2_5_vl internvl idefics3 llava_next"))
def test_the_patch_of_a_piece_that_changes_is_the_one_that_is_named(kind: str) -> None:
    model, inputs = given(kind)
    tower = [token for token in tower_tokens(model.config, inputs) if token.row is not None]
    tiled = inputs["pixel_values"].ndim > 2 and len({token.piece for token in tower}) > 1
    numbers = 384 if kind == "qwen2_5_vl" else 3 * size_of(model) ** 2  # of a patch
    assert len(tower) == inputs["pixel_values"].numel() // numbers - 3 * (kind == "lfm2_vl")
    assert len({token.text for token in tower}) == len(tower)
    for token in tower[:: len(tower) // 6]:
        row, column, tile = token.row or 0, token.column or 0, (token.piece or 0) if tiled else 0
        assert token.text == (f"t{tile}," if tiled else "") + f"r{row},c{column}"
        pixels = brighter(inputs["pixel_values"], size_of(model), tile, row, column)
        assert changed(model, inputs, pixels, "vision") == [token.text]


@pytest.mark.parametrize("kind", each_of(CASES, daily="qwen2_5_vl internvl idefics3 llava_next"))
def test_the_place_in_the_text_holds_the_patches_that_it_names(kind: str) -> None:
    model, inputs = given(kind)
    square = CASES[kind].square
    text = with_patches(labels(None, inputs["input_ids"]), model, inputs)
    named = {token.text for token in text if token.row is not None}
    tower = [token for token in tower_tokens(model.config, inputs) if token.row is not None]
    tiled = tower[0].text.startswith("t")
    for token in tower[:: len(tower) // 8]:
        row, column, tile = token.row or 0, token.column or 0, (token.piece or 0) if tiled else 0
        name = (f"t{tile}," if tiled else "") + f"r{row // square},c{column // square}"
        pixels = brighter(inputs["pixel_values"], size_of(model), tile, row, column)
        assert changed(model, inputs, pixels, "text") == ([name] if name in named else [])
    assert len(named) == CASES[kind].places - 2 * (kind == "llava_next")


def test_padding_around_an_image_is_not_in_the_text() -> None:
    model, inputs = given("llava_next")
    text = with_patches(labels(None, inputs["input_ids"]), model, inputs)
    names = [token.text for token in text[2:-2]]
    assert names[:16] == [f"t0,r{row},c{column}" for row in range(4) for column in range(4)]
    assert names[16:] == [
        name
        for row in (1, 2)
        for name in (*(f"t{tile},r{row},c{column}" for tile in (1, 2) for column in range(4)), "[NEWLINE]")
    ]
    assert [token.special for token in text[2:-2]] == [name == "[NEWLINE]" for name in names]


def test_a_window_is_known_by_its_place_among_all() -> None:
    model, inputs = given("qwen2_5_vl")
    tower = tower_tokens(model.config, inputs)
    windows: list[list[str]] = [[] for _ in range(6)]
    for token in tower:
        windows[token.piece or 0].append(token.text)
    assert [len(window) for window in windows] == [16, 16, 8, 8, 8, 4]  # 6 x 10 patches in 4 x 4
    assert windows[5] == ["r4,c8", "r4,c9", "r5,c8", "r5,c9"]
    shown: dict[int, list[list[str]]] = {0: [], 1: []}

    def visit(call: Call) -> None:
        if call.place.stream == "vision":
            shown[call.place.layer].append([token.text for token in call.keys])

    with torch.no_grad(), capture(model, visit, texts=[()], others=[{"vision": tower}]):
        model(**inputs)
    assert shown == {0: windows, 1: [[token.text for token in tower]]}  # layer 1 sees all at once
