"""Squares of patches in a text: the token that changes with a patch is the one that is named; tiles have no names."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from transformers import PreTrainedModel

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.sources.huggingface.anatomy.image_grid import image_grids, tower_tokens, with_patches
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.read.tokenize import labels
from tests.architectures.tiny import tiny_model

TOLD = 6  # columns of an LFM2-VL's patches, which come row by row, three more to fill them up


class Case(NamedTuple):
    """The inputs of a type, with `places` for the image in its text; every `square` x `square` patches are one."""

    shape: tuple[int, ...]
    places: int
    square: int = 1
    more: dict[str, list[list[int]]] = {}  # noqa: RUF012  (nobody changes it)


CASES = {
    "internvl": Case((1, 3, 56, 56), 2 * 2, 2),
    "mistral3": Case((1, 3, 32, 48), 2 * 3, 2, {"image_sizes": [[32, 48]]}),
    "lfm2_vl": Case(
        (1, 4 * TOLD + 3, 192), 2 * 3, 2, {"spatial_shapes": [[4, TOLD]], "pixel_attention_mask": [[1] * 24 + [0] * 3]}
    ),
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


def brighter(pixels: torch.Tensor, side: int, row: int, column: int) -> torch.Tensor:
    pixels = pixels.clone()
    if pixels.ndim == 3:
        pixels[0, row * TOLD + column] += 1.5
    else:
        pixels[..., row * side : (row + 1) * side, column * side : (column + 1) * side] += 1.5
    return pixels


def changed(model: PreTrainedModel, inputs: dict[str, Any], pixels: torch.Tensor, stream: str) -> list[str]:
    """Labels of the keys of a stream's first layer that change with these pixels."""
    (grid,) = image_grids(model.config, inputs)
    tower = {"vision": tower_tokens(model.config, inputs, grid)}
    text = with_patches(model.config, labels(None, inputs["input_ids"][0].tolist()), [grid])
    calls: list[AttentionCall] = []

    def visit(call: Call) -> None:
        if isinstance(call, AttentionCall) and (call.place.stream, call.place.layer) == (stream, 0):
            assert call.queries == call.keys
            calls.append(replace(call, k=call.k.clone()))

    for given in inputs["pixel_values"], pixels:
        with torch.no_grad(), capture(model, visit, texts=[text], others=[tower]):
            model(**{**inputs, "pixel_values": given})
    before, after = calls
    moved = (after.k - before.k).abs().amax(dim=(0, 2))
    return [token.text for token, x in zip(before.keys, moved.tolist(), strict=True) if x > 1e-5]


@pytest.mark.parametrize("kind", CASES)
def test_the_patch_that_changes_is_the_one_that_is_named(kind: str) -> None:
    model, inputs = given(kind)
    size, square = model.config.vision_config.patch_size, CASES[kind].square
    side = size if isinstance(size, int) else size[0]
    (grid,) = image_grids(model.config, inputs)
    for row, column in (0, 0), (1, 2), (grid[0] - 1, 0), (grid[0] - 1, grid[1] - 1):
        pixels = brighter(inputs["pixel_values"], side, row, column)
        assert changed(model, inputs, pixels, "vision") == [f"r{row},c{column}"]
        assert changed(model, inputs, pixels, "text") == [f"r{row // square},c{column // square}"]


def test_mixtures_of_all_patches_and_what_does_not_divide_have_no_names() -> None:
    model, inputs = given("mistral3")
    tokens = labels(None, inputs["input_ids"][0].tolist())
    for grids in [], [(4, 5)], [(4, 4)], [(4, 6), (4, 6)]:
        assert all(token.row is None for token in with_patches(model.config, tokens, grids))
    stages = tiny_model("florence2", "tiny").config  # each with patches of its own
    assert image_grids(stages, {"pixel_values": torch.zeros(1, 3, 32, 32)}) == []
