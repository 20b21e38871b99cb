"""Checkpoints in several files are one model, and a missing file is named."""

from pathlib import Path

import pytest
import torch

from attn_cli.errors import LoadError
from attn_cli.sources.huggingface.load.checkpoint import load
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from tests.sources.huggingface.models import sentence, tiny
from tests.sources.huggingface.runs import run_captured, run_plain


def test_weights_in_several_files(tmp_path: Path) -> None:
    model = tiny("llama")
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    shards = sorted(tmp_path.glob("*.safetensors"))
    assert len(shards) > 2
    loaded = load(find(str(tmp_path), OriginOptions(reads_text=False))).model
    inputs = sentence(model)
    expected = run_plain(model, inputs, output_attentions=True).attentions[1][0]
    torch.testing.assert_close(torch.from_numpy(run_captured(loaded, inputs).weights(1)), expected, atol=1e-5, rtol=0)


def test_a_file_of_several_that_is_not_there(tmp_path: Path) -> None:
    tiny("llama").save_pretrained(tmp_path, max_shard_size="10KB")
    lost = sorted(tmp_path.glob("*.safetensors"))[1]
    lost.unlink()
    with pytest.raises(LoadError) as error:
        load(find(str(tmp_path), OriginOptions(reads_text=False)))
    assert lost.name in error.value.message
