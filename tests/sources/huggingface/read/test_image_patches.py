"""Every type whose patches are said to be known: when one changes, the token that changes is the one that is named."""

from collections.abc import Set
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call
from attn_cli.sources.huggingface.anatomy.image_grid import image_grids, tower_tokens, with_patches
from attn_cli.sources.huggingface.anatomy.streams import TEXT_STREAMS
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.known_types import BEFORE_PATCHES
from attn_cli.sources.huggingface.read.tokenize import labels
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.architectures.check import built
from tests.architectures.tiny import each_of, every_type, tiny_model
from tests.releases import skip_on_older

TOWERS = sorted(BEFORE_PATCHES.keys() - {"siglip2_vision_model"})  # whose pixels are rows of patches
IN_TEXT = """aya_vision cohere2_vision cohere_compass cosmos3_edge cosmos3_omni deepseek_vl dots3_note ernie4_5_vl_moe
    exaone4_5 gemma3 glm46v glm4v glm4v_moe glm5_next glm_ocr glmga hyperclovax_vision_v2 idefics3 janus
    lfm3_vl llava minimax_m3_vl ovis2 paligemma qwen2_5_omni_thinker qwen2_5_vl qwen2_vl qwen3_5 qwen3_5_moe
    qwen3_omni_moe_thinker qwen3_vl qwen3_vl_moe qwen4_exp smolvlm t5gemma2_encoder vipllava video_llava"""
# One of each order of patches.
DAILY = "vit clip_vision_model dinov2_with_registers pixtral idefics3_vision siglip_vision_model qwen2_vl gemma3 llava"
# What the projection behind a tower's attention is called.
_OUT_OF_ATTENTION = ("out_proj", "attn.proj", "o_proj", "projection_layer")
# A type that has each kind of tower: the tower alone, or what its name begins with.
HOLDERS = {
    kind: kind if kind in every_type() else kind.removesuffix("_vision_model").removesuffix("_vision")
    for kind in TOWERS
} | {"blip_2_vision_model": "blip-2", "kosmos_2_vision_model": "kosmos-2"}


def first_call(model: PreTrainedModel, inputs: dict[str, Any], streams: Set[str]) -> np.ndarray:
    """The keys `[heads, m, d]` of the first softmax in one of `streams`; its scores where keys were not seen."""
    found: list[np.ndarray] = []

    def visit(call: Call) -> None:
        if call.place.stream not in streams or found:
            return
        if isinstance(call, AttentionCall):
            found.append(call.k.numpy().copy())
        else:
            matrix = reduce(call, MatrixOf(kinds=("weights", "scores"))).part(Matrix)
            assert matrix is not None and matrix.scores is not None
            found.append(matrix.scores.swapaxes(1, 2))

    with torch.no_grad(), capture(model, visit):
        model(**inputs)
    return found[0]


def changed_keys(model: PreTrainedModel, inputs: dict[str, Any], pixels: torch.Tensor, streams: Set[str]) -> list[int]:
    """The keys that change with these pixels; of scores those that change for most queries."""
    before, after = (first_call(model, given, streams) for given in (inputs, {**inputs, "pixel_values": pixels}))
    moved: np.ndarray = np.median(np.abs(after - before).max(axis=0), axis=1)
    return np.flatnonzero(moved > 1e-5).tolist()


def brighter(inputs: dict[str, Any], place: tuple[int, int], columns: int) -> torch.Tensor:
    """The pixels with some of one patch brighter."""
    pixels: torch.Tensor = inputs["pixel_values"].clone()
    side = pixels.shape[-1] // columns
    top, left = place[0] * side, place[1] * side
    pixels[..., top : top + 2, left : left + 2] += 5  # some images are a little larger than their patches
    return pixels


@pytest.mark.parametrize("kind", each_of(TOWERS, daily=DAILY))
def test_the_patch_that_changes_is_the_one_that_is_named(kind: str) -> None:
    """In the first block of a tower a token's key holds its own patch alone."""
    holder = HOLDERS.get(kind, kind)
    if holder not in every_type():
        skip_on_older(f"it has no {holder} yet")
    model, inputs = built(holder)
    (grid,) = set(image_grids(model.config, inputs))
    tokens = tower_tokens(model.config, inputs, grid)
    patches = {(token.row, token.column): token.index for token in tokens if token.row is not None}
    last = max(patches)
    assert len(patches) == (last[0] + 1) * (last[1] + 1) >= 4
    for place in ((0, 0), (0, last[1]), (last[0], 0), (1, 0), last):
        pixels = brighter(inputs, place, last[1] + 1)
        assert changed_keys(model, inputs, pixels, {"vision", "self"}) == [patches[place]]


def test_mixtures_of_all_patches_and_what_does_not_divide_have_no_names() -> None:
    config = tiny_model("mistral3", "tiny").config
    tokens = labels(None, [9, 21, *[config.image_token_id] * 6, 33])
    assert [token.row for token in with_patches(config, tokens, [(4, 6)])][2:8] == [0, 0, 0, 1, 1, 1]
    for grids in [], [(4, 5)], [(4, 4)], [(4, 6), (4, 6)]:
        assert all(token.row is None for token in with_patches(config, tokens, grids))
    stages = tiny_model("florence2", "tiny").config  # each with patches of its own
    assert image_grids(stages, {"pixel_values": torch.zeros(1, 3, 32, 32)}) == []


@pytest.mark.parametrize("kind", each_of(IN_TEXT.split(), daily=DAILY))
def test_the_place_in_the_text_that_changes_is_the_one_that_is_named(kind: str) -> None:
    """With a tower that doesn't mix its patches, what stands in the text holds those of its own place."""
    model, inputs = built(kind)
    if "pixel_values" not in inputs:
        skip_on_older(f"a {kind} of two layers fails on an image")
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if any(x in name for x in ("vision", "visual", "tower")) and any(x in name for x in _OUT_OF_ATTENTION):
                weights.zero_()
    tokens = with_patches(
        model.config, labels(None, inputs["input_ids"][0].tolist()), image_grids(model.config, inputs)
    )
    places = {(token.row, token.column): token.index for token in tokens if token.row is not None}
    last = max(places)
    assert len(places) == (last[0] + 1) * (last[1] + 1) >= 4
    rows = torch.arange(16)  # 4 x 4 patches, where they come one after the other in squares of 2 x 2
    for place, index in places.items():
        pixels = inputs["pixel_values"].clone()
        if pixels.ndim == 2:
            pixels[rows // 4 == place[0] * 2 + place[1]] += 1.5
        else:
            high, wide = pixels.shape[-2] // (last[0] + 1), pixels.shape[-1] // (last[1] + 1)
            pixels[..., place[0] * high : (place[0] + 1) * high, place[1] * wide : (place[1] + 1) * wide] += 1.5
        changed = changed_keys(model, inputs, pixels, TEXT_STREAMS)
        assert changed[0] == index  # some mix tokens before their first softmax, but only into later ones
        if not kind.startswith(("qwen3_5", "qwen4_exp", "glm5_next", "lfm3")):
            assert changed == [index]
