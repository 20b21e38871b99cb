"""A model whose parameters FSDP shards, and gathers for each block: its heads and its output are the same."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

from tests.packings import SHAPE
from tests.sources.huggingface.capture import one_rank


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A group of this process alone."""
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_heads_and_output_of_a_sharded_model() -> None:
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE)).eval()
    plain, ids = one_rank.seen(model), torch.tensor(one_rank.IDS)
    with torch.no_grad():
        logits = model(ids).logits
    mesh = init_device_mesh("cpu", (1,))
    for block in (*model.model.layers, model):
        fully_shard(block, mesh=mesh)
    assert isinstance(model, FSDPModule)
    np.testing.assert_allclose(one_rank.seen(model), plain, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, logits, rtol=1e-5, atol=1e-5)
