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

from attn_cli import Heads, HeadStatistics, capture, reduce
from attn_cli.call import Call
from tests.sources.huggingface.models import GROUPED

IDS = torch.tensor([[1, 2, 3, 4, 5, 6, 7]])


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def seen(model: torch.nn.Module) -> list[list[float]]:
    """Layer, head, key head, entropy and largest score of each head."""
    rows: list[list[float]] = []

    def visit(call: Call) -> None:
        heads = reduce(call, HeadStatistics()).part(Heads)
        numbers = (call.place.heads, call.place.groups, heads.entropy_bits.tolist(), heads.max_score.tolist())
        rows.extend([call.place.layer, *row] for row in zip(*numbers, strict=True))

    with torch.no_grad(), capture(model, visit):
        model(IDS)
    return rows


@pytest.mark.usefixtures("group")
def test_heads_and_output_of_a_sharded_model() -> None:
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**GROUPED)).eval()
    plain = seen(model)
    with torch.no_grad():
        logits = model(IDS).logits
    mesh = init_device_mesh("cpu", (1,))
    for block in (*model.model.layers, model):
        fully_shard(block, mesh=mesh)
    assert isinstance(model, FSDPModule)
    np.testing.assert_allclose(seen(model), plain, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(model(IDS).logits, logits, rtol=1e-5, atol=1e-5)
