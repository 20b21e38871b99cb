"""The weights that are shown are the model's own: those that eager attention returns."""

import numpy as np

from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from tests.sources.huggingface.runs import TEXT, encoded, run_captured, run_plain

# Both compute in float32, but in another order: q is scaled before the product here and the scores after it there.
TOLERANCE = 1e-5


def test_every_layer_and_head_equals_eager(real: LoadedModel) -> None:
    inputs = encoded(real, TEXT)
    eager = run_plain(real.model, inputs, output_attentions=True).attentions
    run = run_captured(real.model, inputs)
    assert len(run.summaries) == len(eager) == real.model.config.num_hidden_layers
    for layer, expected in enumerate(eager):
        np.testing.assert_allclose(run.weights(layer), expected[0].numpy(), atol=TOLERANCE, rtol=0)


def test_every_row_adds_to_one(real: LoadedModel) -> None:
    run = run_captured(real.model, encoded(real, TEXT))
    for layer in range(real.model.config.num_hidden_layers):
        sums = run.weights(layer).sum(axis=-1)
        np.testing.assert_allclose(sums, 1.0, atol=1e-6)  # float32 sums of at most 20 weights
