"""`attn cost`: figures known from elsewhere, sizes from a config.json, and what attn really holds."""

import json
from pathlib import Path

import numpy as np
import pytest

from attn_cli.kernel.bands.bands import bands
from attn_cli.kernel.bands.plan import Plan, tile_of
from attn_cli.kernel.definition.rule import Rule
from tests.program import attn, refused

LLAMA_3_8B = ["--heads", "32", "--kv-heads", "8", "--dim", "128", "--layers", "32"]


def cost(*arguments: str) -> dict:
    run = attn("cost", *arguments, "--json")
    assert (run.code, run.errors) == (0, "")
    tables = run.json["tables"]
    operations = {row["part"]: row["operations"] for row in tables["operations"]}
    (asked,) = (variant for variant in tables["variants"] if variant["requested"])
    return tables["sizes"][0] | {"variants": tables["variants"], "operations": operations, "asked": asked}


def test_llamas_cache_and_matrix_by_hand() -> None:
    found = cost("-n", "8192", *LLAMA_3_8B)
    kept = {variant["variant"]: variant for variant in found["variants"]}
    # 2 (k and v) * 32 layers * 8 heads * 128 * 8192 tokens * 2 bytes = 1 GiB; with 32 key heads four times that
    assert kept["grouped-query, 8 key heads"]["cache_bytes"] == 2**30
    assert kept["grouped-query, 8 key heads"]["requested"]
    assert kept["multi-head"]["cache_bytes"] == 4 * 2**30
    assert kept["multi-query"]["cache_bytes"] == 2**27
    assert found["matrix_bytes"] == 256 * 2**30  # 32 heads * 8192 * 8192 * 4 bytes = 8 GiB a layer
    # half of the 8192 x 8192 cells and the diagonal: 33,558,528, times 32 heads, 128 numbers, 2 operations, 32 layers
    assert found["operations"]["scores"] == 33_558_528 * 32 * 128 * 2 * 32
    assert found["operations"]["mixing"] == found["operations"]["scores"]
    # W_Q and W_O 4096 x 4096, W_K and W_V 4096 x 1024: 41,943,040 multiplications a token and layer
    assert found["operations"]["projections"] == 2 * 41_943_040 * 8192 * 32


def test_deepseeks_cache_is_576_numbers_a_token() -> None:
    found = cost("-n", "1000", "--heads", "128", "--dim", "128", "--latent", "512", "--layers", "61")
    assert found["asked"]["latent_size"] == 512
    assert found["asked"]["cache_bytes"] == 576 * 1000 * 61 * 2  # DeepSeek-V2, 2024, table 1: (d_c + d_R) l a token


def test_a_window_bounds_the_cache_and_makes_cost_linear() -> None:
    short, long = (cost("-n", n, *LLAMA_3_8B, "--window", "1000") for n in ("10000", "20000"))
    assert short["asked"]["cache_bytes"] == long["asked"]["cache_bytes"] == 2 * 32 * 8 * 128 * 1000 * 2
    # n * 1000 cells less the triangle at the start, 1000 * 999 / 2
    assert short["operations"]["scores"] == (10_000 * 1000 - 499_500) * 32 * 128 * 2 * 32
    assert long["operations"]["scores"] - short["operations"]["scores"] == 10_000 * 1000 * 32 * 128 * 2 * 32


CONFIGS = {
    "gpt2": ({"n_layer": 12, "n_head": 12, "n_embd": 768}, (12, 12, 12, 64, None, None)),
    "qwen without its window": ({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64,
                                 "sliding_window": 128, "use_sliding_window": False}, (2, 4, 4, 16, None, None)),
    "deepseek": ({"num_hidden_layers": 3, "num_attention_heads": 8, "hidden_size": 64, "kv_lora_rank": 32,
                  "qk_rope_head_dim": 4, "qk_nope_head_dim": 12, "v_head_dim": 10}, (3, 8, 8, 16, 32, None)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_sizes_come_from_a_config(name: str, tmp_path: Path) -> None:
    config, expected = CONFIGS[name]
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = cost("-n", "512", "-m", str(tmp_path))
    assert tuple(found[x] for x in ("layers", "heads", "kv_heads", "head_size", "latent_size", "window")) == expected


OLD_GEMMA = {"num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 1, "hidden_size": 64,
             "head_dim": 16, "sliding_window": 32, "torch_dtype": "float16"}  # fmt: skip
WINDOWS = {  # by the type of model: its config, and how many of 8 layers see the window alone
    "gemma3_text": (OLD_GEMMA | {"sliding_window_pattern": 4}, 6),
    "gemma3": ({"text_config": OLD_GEMMA | {"model_type": "gemma3_text"}, "torch_dtype": "float16"}, 7),
    "gemma2": (OLD_GEMMA, 4),
    "mistral": (OLD_GEMMA, 8),
    "a type of its own": ({"vision_config": {"hidden_size": 5}, "text_config": OLD_GEMMA}, 8),
    "another": (OLD_GEMMA | {"layer_types": [*["sliding_attention"] * 5, *["full_attention"] * 3]}, 5),
}


@pytest.mark.parametrize("model_type", WINDOWS)
def test_some_layers_may_see_a_window_only(model_type: str, tmp_path: Path) -> None:
    config, windowed = WINDOWS[model_type]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type, **config}))
    found = cost("-n", "100", "-m", str(tmp_path))
    assert found["asked"]["cache_bytes"] == (windowed * 32 + (8 - windowed) * 100) * 2 * 16 * 2
    said = f"{windowed} of 8 layers see a window of 32 tokens, {8 - windowed} the whole text"
    assert said in attn("cost", "-n", "100", "-m", tmp_path).text


def test_attn_holds_no_more_than_it_says() -> None:
    found = cost("-n", "3000", "--heads", "4", "--kv-heads", "2", "--dim", "8")
    heads, rows, *_ = tile_of(4, 2, 3000)
    x = np.zeros((4, 3000, 8), dtype=np.float32)
    largest = bands(x, x[:2], x[:2], Rule(1.0), Plan(range(300), heads, rows))
    assert max(band.weights.nbytes for band in largest) == found["band_bytes"]


def test_without_a_length_a_model_is_counted_at_its_longest_text(tmp_path: Path) -> None:
    config = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 700}))
    assert cost("-m", str(tmp_path)) == cost("-m", str(tmp_path), "-n", "700")
    screen = attn("cost", "-m", tmp_path, terminal=True, env={"NO_COLOR": "1"})
    assert "the model's longest text" in screen.text and screen.lines[-1] == "next: attn guide costs"
    assert "the model's longest text" not in attn("cost", "-m", tmp_path, "-n", "700").text
    (tmp_path / "config.json").write_text(json.dumps(config))
    refused(attn("cost", "-m", tmp_path), 2, "doesn't say how long", "give it with -n")


def test_what_is_missing_or_wrong_is_said(tmp_path: Path) -> None:
    refused(attn("cost", "--heads", "4"), 2, "the length of the text is missing", "try: attn cost -n 32000 --heads 32 ")
    refused(attn("cost", "-n", "10,2.5"), 2, "-n 10,2.5 is not a length", "whole numbers from 1 to")
    refused(attn("cost", "-n", "10", "--heads", "4", "--dim", "8", "--kv-heads", "3"), 2, "3 key heads don't divide 4")
    refused(attn("cost", "-n", "10", "-m", "./nothing"), 3, "no config.json at ./nothing")
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 2}')
    refused(attn("cost", "-n", "10", "-m", tmp_path), 3, "doesn't say its heads and width")
    (tmp_path / "config.json").write_text("[")
    refused(attn("cost", "-n", "10", "-m", tmp_path), 3, "can't be read")
