"""pytorch_model.bin is read for its weights alone: what else it holds is not run, and refused without advice to."""

import os
from pathlib import Path

import pytest
import torch

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.load.checkpoint import load
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from tests.sources.huggingface.models import tiny


class Code:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.marker}",)


def test_weights_are_read_and_code_is_not_run(tmp_path: Path) -> None:
    model, folder = tiny("gpt2"), tmp_path / "m"
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    loaded = load(find(str(folder), OriginOptions(reads_text=False)))
    assert loaded.model.num_parameters() == model.num_parameters()
    torch.save(model.state_dict() | {"evil": Code(tmp_path / "ran")}, folder / "pytorch_model.bin")
    with pytest.raises(LoadError, match="holds more than weights, and was not read") as error:
        load(find(str(folder), OriginOptions(reads_text=False)))
    assert "weights_only" not in error.value.message + error.value.hint
    assert not (tmp_path / "ran").exists()
