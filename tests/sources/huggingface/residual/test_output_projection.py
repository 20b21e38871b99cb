"""W_O found without names, and what is written with it, against W_O as the dense matrix that its weights make."""

import numpy as np
import pytest
import torch
from transformers.pytorch_utils import Conv1D

from attn_cli.call import Place
from attn_cli.errors import LoadError
from attn_cli.model.blocks import BlockVectors
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.residual import Projections, recording_blocks
from attn_cli.summaries.calls.read_shares import ReadShares
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.architectures.inputs import inputs_of
from tests.architectures.tiny import tiny_model
from tests.sources.huggingface.models import KINDS, sentence, tiny

# Grouped, Conv1D, post-norm, a norm after attention, a learned sink, latent keys, an encoder-decoder, parallel blocks.
FOUND = ("llama", "gpt2", "bert", "gemma2", "gpt_oss", "deepseek_v3", "t5", "gpt_neox", "cohere", "jamba")


@pytest.mark.parametrize("kind", ["qwen3_next", "afmoe", "bitnet", "jetmoe", "diffllama"])
def test_behind_a_gate_norm_or_mixture_it_is_refused_by_name(kind: str) -> None:
    model = tiny_model(kind, "tiny")
    projections = Projections(ModulePlaces(model), inputs_of(model, kind))
    assert projections.found and not any(projections.found.values())
    path = next(iter(projections.found))
    with pytest.raises(LoadError, match=rf"layer 1 \({path}\): W_O was not found"):
        projections.rows(Place(1, path, (0,), (0,)), [0], 2, 4)


def dense(module: torch.nn.Module) -> np.ndarray:
    """W_O `[h * e, width]` as its weights lie in a Linear or a Conv1D."""
    weight = module.weight.detach().double().numpy()
    return np.asarray(weight if isinstance(module, Conv1D) else weight.T)


@pytest.mark.parametrize("kind", [*FOUND, "mistral", "olmo2"])
def test_all_heads_of_tiny_models_against_the_dense_matrix(kind: str) -> None:
    model = tiny_model(kind, "tiny")
    assert hold_written(model, inputs_of(model, kind), Selection()) > 0


def hold_written(model: torch.nn.Module, inputs: dict[str, torch.Tensor], selection: Selection) -> int:
    """Shares by output of the selected layers against dense vectors; how many layers."""
    projections = Projections(ModulePlaces(model), inputs)
    apart: list[float] = []

    def visit(call: object) -> None:
        read = ReadShares(call, "output")  # type: ignore[arg-type]
        own = reduce(read, MatrixOf(kinds=("weights", "shares"), by="output")).part(Matrix)
        assert own is not None and own.weights is not None
        matrix = dense(projections.found[call.place.name][0])  # type: ignore[attr-defined]
        h = own.weights.shape[0]
        v = np.repeat(call.v.double().numpy(), h // call.v.shape[0], axis=0)  # type: ignore[attr-defined]
        e = v.shape[-1]
        sent = np.stack([v[head] @ matrix[head * e : (head + 1) * e] for head in range(h)])  # [h, m, width]
        vectors = own.weights.astype(np.float64)[..., None] * sent[:, None]
        lengths = np.linalg.norm(vectors, axis=-1)
        shares = lengths / lengths.sum(axis=-1, keepdims=True)
        apart.append(float((np.abs(own.shares - shares) / shares.max()).max()))  # type: ignore[operator]

    with capture(model, visit, selection=selection) as ledger:  # type: ignore[arg-type]
        ledger.projections = projections.rows
        if selection.layers:
            ledger.end_after_selection()
        with torch.no_grad():
            model(**inputs)
    assert max(apart) < 1e-4
    return len(apart)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_the_hidden_states(kind: str) -> None:
    model = tiny(kind)
    inputs = sentence(model)
    steps: list[BlockVectors] = []
    rows = [1, 7]
    with (
        recording_blocks(ModulePlaces(model), Selection(), rows, inputs["input_ids"].shape[1], steps.append),
        torch.no_grad(),
    ):
        output = model(**inputs, output_hidden_states=True)
    hidden = output.encoder_hidden_states if model.config.is_encoder_decoder else output.hidden_states
    blocks = len(hidden) - 1
    assert [step.layer for step in steps] == list(range(blocks))
    for step in steps:
        assert torch.equal(torch.from_numpy(step.before), hidden[step.layer][0, rows].float())
        if step.layer < blocks - 1:  # the last is normalised once more in some models
            assert torch.equal(torch.from_numpy(step.after), hidden[step.layer + 1][0, rows].float())
