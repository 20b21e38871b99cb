"""attn layers: true block numbers on hybrid stacks, windows, caps, sinks, streams; in every format."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.architectures.check import built
from tests.program import Run, attn, refused
from tests.real_models import MINILM
from tests.views.test_schemas import hold


def saved(name: str, folder: Path) -> list[str]:
    """The options that open a tiny model of that type with its inputs."""
    model, inputs = built(name)
    model.save_pretrained(folder / "model")
    arrays = {key: x.numpy() for key, x in inputs.items() if isinstance(x, torch.Tensor)}
    np.savez(folder / "inputs.npz", **arrays)
    return ["-m", str(folder / "model"), "-F", str(folder / "inputs.npz")]


def mapped(name: str, folder: Path) -> list[dict[str, Any]]:
    run = attn("layers", *saved(name, folder), "--json")
    hold(run, "layers")
    rows: list[dict[str, Any]] = run.json["tables"]["layers"]
    return rows


@pytest.mark.parametrize(
    ("name", "mixer"),
    [
        ("jamba", ["Mamba", "softmax attention", "Mamba", "softmax attention"]),
        ("qwen3_next", ["linear attention", "softmax attention"]),
        ("lfm2_moe", ["convolution", "softmax attention"]),
        ("recurrent_gemma", ["recurrence", "softmax attention"]),
        ("zamba2", ["Mamba", "softmax attention", "Mamba", "softmax attention"]),
    ],
)
def test_blocks_without_softmax_attention_keep_their_numbers(name: str, mixer: list[str], tmp_path: Path) -> None:
    rows = mapped(name, tmp_path)
    assert [(row["layer"], row["mixer"]) for row in rows] == list(enumerate(mixer))
    for row in rows:
        assert (row["way"] is None) == (row["heads"] == 0) == (row["mixer"] != "softmax attention")


def test_windows_caps_groups_and_scale(tmp_path: Path) -> None:
    first, second = mapped("gemma2", tmp_path)
    assert (first["mask"], second["mask"]) == ("window 4, causal", "causal")
    assert (first["softcap"], first["scale"], first["heads"], first["kv_heads"]) == (2.0, 0.25, 4, 2)
    assert (first["sink"], first["bias"], first["way"]) == (False, False, "registry")


def test_a_sink(tmp_path: Path) -> None:
    assert [row["sink"] for row in mapped("gpt_oss", tmp_path)] == [True, True]


def test_weights_alone_tell_whether_attention_is_causal(tmp_path: Path) -> None:
    assert {(row["mask"], row["scale"], row["way"]) for row in mapped("bloom", tmp_path)} == {
        ("causal", None, "softmax")
    }


def test_streams_and_position_bias(tmp_path: Path) -> None:
    rows = mapped("t5", tmp_path)
    assert [(row["stream"], row["layer"], row["mask"]) for row in rows] == [
        ("encoder", 0, "no mask"), ("encoder", 1, "no mask"), ("decoder", 0, "causal"), ("decoder", 1, "causal"),
        ("cross", 0, "no mask"), ("cross", 1, "no mask"),
    ]  # fmt: skip
    assert all(row["bias"] for row in rows if row["stream"] != "cross")


def test_shared_layers_run_several_times(tmp_path: Path) -> None:
    (only,) = mapped("albert", tmp_path)
    assert only["calls"] == 2


@pytest.mark.parametrize(
    ("name", "stream", "left_out", "needs"),
    [
        ("llava", "vision", ["pixel_values"], "pixel_values"),
        ("qwen2_vl", "vision", ["pixel_values", "image_grid_thw"], "pixel_values or pixel_values_videos"),
        ("qwen2_audio", "audio", ["input_features", "feature_attention_mask"], "input_features"),
        ("lfm2_vl", "vision", ["pixel_values"], "pixel_values"),
    ],
)
def test_a_tower_that_had_nothing_to_see_is_listed_as_such(
    name: str, stream: str, left_out: list[str], needs: str, tmp_path: Path
) -> None:
    options = saved(name, tmp_path)
    whole = attn("layers", *options, "--json").json["tables"]["layers"]
    with np.load(tmp_path / "inputs.npz") as arrays:
        np.savez(tmp_path / "inputs.npz", **{key: arrays[key] for key in arrays.files if key not in left_out})
    run = attn("layers", *options, "--json")
    hold(run, "layers")
    rows = run.json["tables"]["layers"]
    assert sorted((row["stream"], row["layer"], row["name"]) for row in rows) == sorted(
        (row["stream"], row["layer"], row["name"]) for row in whole
    )
    for row in rows:
        attends = row["mixer"] == "softmax attention"
        idle = row["stream"] == stream and attends
        assert row["note"] == (f"did not run: needs {needs}" if idle else None)
        assert (row["calls"] > 0) == (attends and not idle)
        assert (row["heads"] > 0) == attends
    shown = attn("layers", *options, env={"COLUMNS": "40"})
    assert f"did not run: {stream}, which needs {needs}" in " ".join(shown.text.split())
    assert max(map(len, shown.lines[1:])) <= 40


def test_clip_without_an_image_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    options = saved("clip", tmp_path)
    with np.load(tmp_path / "inputs.npz") as arrays:
        np.savez(tmp_path / "inputs.npz", input_ids=arrays["input_ids"])
    refused(attn("layers", *options), 2, "(clip) was given no pixel_values and can't be run: ", "-F FILE.npz")


def test_a_type_without_softmax_attention(tmp_path: Path) -> None:
    refused(attn("layers", *saved("mamba", tmp_path)), 3, "(mamba) has no softmax attention")


def test_blocks_that_differ_in_their_number_alone_share_a_line() -> None:
    run = attn("layers", "-m", MINILM, env={"COLUMNS": "120"})
    assert [line.split() for line in run.lines if line.startswith("  0")] == [
        ["0-5", "softmax", "attention", "12", "12", "no", "mask", "0.1768", "1"]
    ]


def test_every_format(tmp_path: Path) -> None:
    options = saved("jamba", tmp_path)
    rows = attn("layers", *options, "-f", "csv").lines
    assert rows[0].startswith("stream,layer,mixer,name,way,calls,heads,kv_heads,scale,mask")
    assert [row.split(",")[2] for row in rows[1:]] == ["Mamba", "softmax attention"] * 2
    lines: Run = attn("layers", *options, "-f", "jsonl")
    assert [json.loads(line)["layer"] for line in lines.lines] == [0, 1, 2, 3]
    assert attn("layers", *options, "-o", tmp_path / "map.npz").code == 0
    with np.load(tmp_path / "map.npz") as arrays:
        assert arrays["heads"].tolist() == [0, 4, 0, 4]
        assert arrays["mixer"].tolist() == ["Mamba", "softmax attention"] * 2
    assert attn("layers", *options, "-f", "html").text.count("Mamba") == 1


def test_a_table_has_one_layer() -> None:
    run = attn("layers", "--json")
    hold(run, "layers")
    (only,) = run.json["tables"]["layers"]
    assert (only["heads"], only["way"], only["mask"]) == (4, "computed", "no mask")
