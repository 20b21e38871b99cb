"""Folders that hold an adapter: its base model, with the adapter's weights, against peft's own model unmerged."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers
from huggingface_hub import constants

from attn_cli.errors import ExitCode
from tests.program import attn, refused
from tests.sources.huggingface.folders import linked


@pytest.fixture
def adapter(minilm_folder: Path, tmp_path: Path) -> Path:
    """A LoRA of MiniLM's queries and values with weights drawn at random, saved with a relative path to its base."""
    torch.manual_seed(0)
    linked(minilm_folder, tmp_path / "base")
    base = transformers.AutoModel.from_pretrained(tmp_path / "base")
    config = peft.LoraConfig(r=4, target_modules=["query", "value"], init_lora_weights=False)
    folder = tmp_path / "lora"
    peft.get_peft_model(base, config).save_pretrained(folder)
    edited(folder, base_model_name_or_path="../base")
    return folder


def edited(folder: Path, **changes: Any) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@torch.no_grad()
def test_an_adapter_is_its_base_model_with_its_weights(adapter: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    run = attn("matrix", "the river bank", "-m", adapter, "-l", "0-5", "-q", "-o", tmp_path / "w.npz")
    assert run.code == 0, run.errors
    model = transformers.AutoModel.from_pretrained(base, attn_implementation="eager")
    inputs = transformers.AutoTokenizer.from_pretrained(base)("the river bank", return_tensors="pt")
    plain = torch.stack(model(**inputs, output_attentions=True).attentions)[:, 0]
    adapted = torch.stack(peft.PeftModel.from_pretrained(model, adapter)(**inputs, output_attentions=True).attentions)
    found = np.load(tmp_path / "w.npz")["weights"]
    np.testing.assert_allclose(found, adapted[:, 0], atol=1e-5)
    assert np.abs(found - plain.numpy()).max() > 0.01


def weights_of(*words: str | Path, file: Path) -> np.ndarray:
    run = attn("matrix", "the river bank", *words, "-l", "0-5", "-q", "-o", file, "--force")
    assert run.code == 0, run.errors
    found: np.ndarray = np.load(file)["weights"]
    return found


def test_an_adapter_on_the_hub_is_read_from_the_cache(
    adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, repository = "0123456789abcdef" * 2 + "01234567", tmp_path / "hub" / "models--me--lora"
    (repository / "snapshots").mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    edited(adapter, base_model_name_or_path=str(tmp_path / "base"))
    adapter.rename(repository / "snapshots" / commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    file = tmp_path / "w.npz"
    merged = weights_of("-m", "me/lora", file=file)
    assert np.abs(weights_of("-m", tmp_path / "base", file=file) - merged).max() > 0.01


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"base_model_name_or_path": "/no/such/model"}, "lora is an adapter of /no/such/model: no model at /no/such"),
        ({"base_model_name_or_path": None}, "lora: adapter_config.json names no base model"),
        (
            {"target_modules": ["key"]},
            "of its weights: base_model.model.encoder.layer.0.attention.self.key.lora_A",
        ),
        (
            {"target_modules": ["query"]},
            "weights that its base lacks: base_model.model.encoder.layer.0.",
        ),
        ({"target_modules": ["nothing"]}, "lora doesn't fit its base model: "),
        ({"peft_type": "NONSENSE"}, "lora doesn't fit its base model: "),
    ],
)
def test_an_adapter_that_is_not_whole_is_refused(adapter: Path, changes: dict[str, Any], words: str) -> None:
    edited(adapter, **changes)
    refused(attn("heads", "the river bank", "-m", adapter), ExitCode.LOAD, words)
