"""Arrays of one's own are read as `model(**inputs)` reads them: no argument of attn's changes what attends to what."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attn_cli import MatrixOf, reduce
from attn_cli.selection import ALL
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.read.reader import PromptReader
from attn_cli.sources.huggingface.source import ModelSource
from tests.sources.huggingface.models import GROUPED, tiny

_PACKED = {"input_ids": np.array([[5, 9, 14, 7, 30, 22, 41]]), "position_ids": np.array([[0, 1, 2, 0, 1, 2, 3]])}


def _source(model: Any, stack: Any, folder: Path, arrays: dict[str, np.ndarray]) -> ModelSource:
    np.savez(folder / "in.npz", **arrays)
    about = {"model": "tiny", "type": model.config.model_type}
    loaded = LoadedModel(stack, None, about, Origin("tiny", "tiny", OriginOptions()), None if model is stack else model)
    return ModelSource(loaded, PromptReader(loaded, inputs_file=str(folder / "in.npz")))


@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma2"])
@pytest.mark.parametrize("given", [{}, {"use_cache": np.array(False)}, {"attention_mask": np.ones((1, 7), int)}])
def test_documents_packed_by_their_positions(kind: str, given: dict[str, np.ndarray], tmp_path: Path) -> None:
    model, arrays = tiny(kind), _PACKED | given
    inputs = {name: torch.from_numpy(x) if x.ndim else x.item() for name, x in arrays.items()}
    with torch.no_grad():
        eager = model(**inputs, output_attentions=True).attentions
    source, seen = _source(model, model, tmp_path, arrays), []
    source.each(source.read([""]), ALL, lambda call: seen.append(reduce(call, MatrixOf()).parts[0].weights))
    apart = float(eager[-1][0, :, 3:, :3].max()) == 0
    assert apart == ("use_cache" in given)
    for weights, expected in zip(seen, eager, strict=True):
        np.testing.assert_allclose(weights, expected[0], atol=1e-5)


def test_the_answer_to_packed_documents(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(**GROUPED)
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for x in model.parameters():
            x.mul_(5)
        logits = model(**{name: torch.from_numpy(x) for name, x in _PACKED.items()}).logits[0, -1]
    source = _source(model, model.model, tmp_path, _PACKED)
    target = source.experiment(source.read([""])[0]).target
    assert target is not None
    assert target.tokens[0].id == int(logits.argmax())
    np.testing.assert_allclose(target.probability, logits.softmax(-1).max(), atol=1e-5)
