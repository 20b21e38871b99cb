"""Two processes that share a model by tensor parallelism: each sees its own heads, under the model's numbers."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attn_cli.selection import ALL, Selection
from tests.packings import SHAPE
from tests.sources.huggingface.capture import one_rank


def test_two_ranks_see_the_heads_of_one_process(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(**SHAPE | {"vocab_size": 20})
    ).eval()  # transformers 5.20 cuts no head of odd size
    model.save_pretrained(tmp_path / "model")
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run = subprocess.run(
        [*words, "-m", one_rank.__name__, str(tmp_path / "model"), str(tmp_path)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    ranks = [json.loads((tmp_path / str(rank)).read_text()) for rank in range(2)]
    assert [[row[1] for row in rank["all"]] for rank in ranks] == [[0, 1, 0, 1], [2, 3, 2, 3]]
    assert [[row[1] for row in rank["some"]] for rank in ranks] == [[0, 0], [3, 3]]
    for name, chosen in (("all", ALL), ("some", Selection(heads=(0, 3)))):
        both = sorted(row for rank in ranks for row in rank[name])
        np.testing.assert_allclose(both, one_rank.seen(model, chosen), atol=1e-5)
