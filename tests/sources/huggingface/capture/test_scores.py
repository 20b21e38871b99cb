"""Scores are scale * q kᵀ of the model's own projections, recomputed here from forward hooks."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from tests.sources.huggingface.runs import TEXT, encoded, run_captured, run_plain

# Scores reach 60 here, and float32 carries 7 digits through sums of 64 products.
TOLERANCE = 1e-4


@contextmanager
def outputs_of(*modules: nn.Module) -> Iterator[list[torch.Tensor]]:
    outputs: list[torch.Tensor] = []
    hooks = [module.register_forward_hook(lambda module, args, output: outputs.append(output)) for module in modules]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


def test_bert_scores_are_scaled_products_of_its_projections(minilm: LoadedModel) -> None:
    inputs = encoded(minilm, TEXT)
    run = run_captured(minilm.model, inputs)
    for layer, block in enumerate(minilm.model.encoder.layer):
        attention = block.attention.self
        with outputs_of(attention.query, attention.key) as outputs:
            run_plain(minilm.model, inputs)
        q, k = (x[0].unflatten(-1, (12, 32)).transpose(0, 1) for x in outputs)
        expected = (q @ k.mT / 32**0.5).numpy()
        np.testing.assert_allclose(run.scores(layer), expected, atol=TOLERANCE)


def test_llama_scores_are_scaled_rotated_products_masked_to_the_past(smollm: LoadedModel) -> None:
    inputs = encoded(smollm, TEXT)
    run = run_captured(smollm.model, inputs)
    projections = [part for block in smollm.model.layers for part in (block.self_attn.q_proj, block.self_attn.k_proj)]
    with outputs_of(smollm.model.rotary_emb) as angles, outputs_of(*projections) as outputs:
        run_plain(smollm.model, inputs)
    cosines, sines = angles[0]
    n = inputs["input_ids"].shape[1]
    future = torch.ones(n, n, dtype=torch.bool).triu(1)
    for layer, (q, k) in enumerate(zip(outputs[::2], outputs[1::2], strict=True)):
        q, k = q.unflatten(-1, (9, 64)).transpose(1, 2), k.unflatten(-1, (3, 64)).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, cosines, sines)
        # Query heads 0, 1, 2 read key head 0, and so on: consecutive, not in turn.
        k = k.repeat_interleave(3, dim=1)
        expected = (q @ k.mT * 64**-0.5).masked_fill(future, -torch.inf)[0].numpy()
        np.testing.assert_allclose(run.scores(layer), expected, atol=TOLERANCE)
        assert run.of(layer).place.groups == (0, 0, 0, 1, 1, 1, 2, 2, 2)
