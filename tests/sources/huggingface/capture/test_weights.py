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
