"""Inputs and outputs of blocks are transformers' hidden states."""

import pytest
import torch

from attn_cli.model.blocks import BlockVectors
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.residual.block_vectors import recording_blocks
from tests.sources.huggingface.models import KINDS, sentence, tiny


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_the_hidden_states(kind: str) -> None:
    model = tiny(kind)
    inputs = sentence(model)
    found = ModulePlaces(model)
    places = [place for module in found.attention for place in found.of(module)]
    steps: list[BlockVectors] = []
    rows = [1, 7]
    with (
        recording_blocks(model, places, Selection(), rows, inputs["input_ids"].shape[1], steps.append),
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
