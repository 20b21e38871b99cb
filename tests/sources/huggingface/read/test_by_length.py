"""Angles that depend on the length of a text: each text has its own, whatever stands beside it or was read before."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import PreTrainedModel

from attn_cli.call import Call
from attn_cli.selection import Selection
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.media import TEXT, saved, tokenizer
from tests.sources.huggingface.generate.test_greedy import opened

ROPE: dict[str, dict[str, Any]] = {
    "longrope": {"rope_type": "longrope", "original_max_position_embeddings": 16,
                 "short_factor": [1.0] * 4, "long_factor": [9.0, 7.0, 5.0, 3.0]},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
}  # fmt: skip


def folder_of(kind: str, folder: Path) -> Path:
    """A tiny model with these angles, which change beyond 16 tokens."""
    sizes = TEXT | {"max_position_embeddings": 64 if kind == "longrope" else 16, "rope_parameters": ROPE[kind]}
    ids = {"eos_token_id": None, "pad_token_id": 0}
    name = "Phi3" if kind == "longrope" else "Llama"
    config = getattr(transformers, f"{name}Config")(**sizes, **ids, original_max_position_embeddings=16)
    torch.manual_seed(0)
    return saved(getattr(transformers, f"{name}ForCausalLM")(config), folder, tokenizer(), strength=8)


@pytest.mark.parametrize("kind", ROPE)
@pytest.mark.parametrize("lengths", [(30, 20, 8), (8, 20, 30)])
def test_a_text_has_the_angles_of_its_own_length(kind: str, lengths: tuple[int, ...], tmp_path: Path) -> None:
    folder = folder_of(kind, tmp_path)
    source = opened(folder)
    prompts = source.read(["a cat " * (length // 2) for length in lengths])
    found: dict[int, list[np.ndarray]] = {}

    def visit(call: Call) -> None:
        matrix = reduce(call, MatrixOf()).part(Matrix)
        assert matrix is not None
        found.setdefault(matrix.weights.shape[1], []).append(matrix.weights)

    for first in range(0, len(prompts), source.batch_size):
        source.each(prompts[first : first + source.batch_size], Selection(), visit)
    for prompt in prompts:
        model: PreTrainedModel = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
        with torch.no_grad():
            own = model(torch.tensor([[token.id for token in prompt.tokens]]), output_attentions=True).attentions
        np.testing.assert_allclose(found[len(prompt.tokens)], torch.cat(own).numpy(), atol=1e-5)
