"""A model whose last layers stay on disk, as --device-map auto leaves them, answers as in memory."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from tests.media import TEXT, tokenizer
from tests.program import attn

WORDS = "the cat sat what is the cat"
ASKED = [
    ("heads",),
    ("top", "--by", "output"),
    ("matrix", "-H", "2.1", "--by", "value"),
    ("top", "-H", "2.1", "-t", "-1", "--why"),
    ("top", "-H", "2.1", "-t", "-1", "--why"),
    ("heads", "--sort", "logit"),
    ("inspect",),
    ("knock",),
    ("parts", "--cut", "words"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("llama")
    LlamaForCausalLM(LlamaConfig(**TEXT | {"num_hidden_layers": 3, "num_key_value_heads": 2})).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[set[str]]:
    """Two of three layers and the head go to disk; the list gets the devices of the weights of each model loaded."""
    devices: list[set[str]] = []
    load = PreTrainedModel.from_pretrained.__func__  # type: ignore[attr-defined]

    def from_pretrained(cls: Any, *arguments: Any, device_map: Any = None, **more: Any) -> Any:
        if device_map != "auto":
            return load(cls, *arguments, device_map=device_map, **more)
        base, inside = ("", {}) if "CausalLM" not in cls.__name__ else ("model.", {"lm_head": "disk"})
        places = {"embed_tokens": "cpu", "norm": "cpu", "rotary_emb": "cpu", "layers.0": "cpu", "layers.1": "disk",
                  "layers.2": "disk"}  # fmt: skip
        spread = {base + name: place for name, place in places.items()} | inside
        loaded = load(cls, *arguments, device_map=spread, offload_folder=str(tmp_path / "offloaded"), **more)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        devices.append({x.device.type for x in model.parameters()})
        return loaded

    monkeypatch.setattr(PreTrainedModel, "from_pretrained", classmethod(from_pretrained))
    return devices


@pytest.mark.parametrize("asked", ASKED, ids=" ".join)
def test_layers_on_disk_answer_as_in_memory(asked: tuple[str, ...], folder: Path, on_disk: list[set[str]]) -> None:
    command, *options = asked
    plain, spread = (attn(command, WORDS, *options, "-m", folder, "--json", *more)
                     for more in ((), ("--device-map", "auto")))  # fmt: skip
    assert spread.code == plain.code == 0, spread.errors
    assert on_disk and on_disk[-1] == {"cpu", "meta"}
    assert_alike(plain.json["result"], spread.json["result"])


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
