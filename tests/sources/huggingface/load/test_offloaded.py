"""A model whose last layers stay on disk, as accelerate leaves them, answers as in memory."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attn_cli.cli.kit.options.command import opened
from attn_cli.sources.huggingface.source import source_of
from tests.media import TEXT, tokenizer
from tests.program import attn

WORDS = "the cat sat what is the cat"
PREDICTING = [("inspect",), ("knock",), ("parts", "--cut", "words")]
ASKED = [
    ("heads",),
    ("top", "--by", "output"),
    ("matrix", "-H", "2.1", "--by", "value"),
    *PREDICTING,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("llama")
    LlamaForCausalLM(LlamaConfig(**TEXT | {"num_hidden_layers": 3, "num_key_value_heads": 2})).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path


@pytest.fixture
def on_disk(folder: Path, tmp_path: Path) -> LlamaForCausalLM:
    """The model with two of three layers, and its head, on disk."""
    places = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu", "model.layers.0": "cpu",
              "model.layers.1": "disk", "model.layers.2": "disk", "lm_head": "disk"}  # fmt: skip
    model = LlamaForCausalLM.from_pretrained(
        folder, device_map=places, offload_folder=str(tmp_path / "offloaded"), attn_implementation="eager"
    )
    assert {x.device.type for x in model.parameters()} == {"cpu", "meta"}
    return model


@pytest.mark.parametrize("asked", ASKED, ids=" ".join)
def test_layers_on_disk_answer_as_in_memory(asked: tuple[str, ...], folder: Path, on_disk: LlamaForCausalLM) -> None:
    words = (asked[0], WORDS, *asked[1:], "-m", folder, "--json")
    plain = attn(*words)
    predicts = asked in PREDICTING
    before = opened.set(source_of(on_disk if predicts else on_disk.model, tokenizer(), predicts=predicts))
    try:
        spread = attn(*words)
    finally:
        opened.reset(before)
    assert spread.code == plain.code == 0, spread.errors
    results = "tables" if "tables" in plain.json else "result"
    assert_alike(plain.json[results], spread.json[results])


def assert_alike(mine: Any, other: Any) -> None:
    if isinstance(mine, dict):
        assert mine.keys() == other.keys()
        for name in mine:
            assert_alike(mine[name], other[name])
    elif isinstance(mine, list):
        assert len(mine) == len(other)
        for one, another in zip(mine, other, strict=True):
            assert_alike(one, another)
    elif isinstance(mine, float):
        assert other == pytest.approx(mine, abs=1e-4)
    else:
        assert mine == other
