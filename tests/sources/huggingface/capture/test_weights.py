"""The weights that are shown are the model's own: those that eager attention returns."""

import numpy as np

from attn_cli.sources.huggingface.load.checkpoint import Loaded
from tests.sources.huggingface.runs import TEXT, encoded, plain, see

# Both compute in float32, but in another order: q is scaled before the product here and the scores after it there.
TOLERANCE = 1e-5


def test_every_layer_and_head_equals_eager(real: Loaded) -> None:
    inputs = encoded(real, TEXT)
    theirs = plain(real.model, inputs, output_attentions=True).attentions
    ours = see(real.model, inputs)
    assert len(ours.summaries) == len(theirs) == real.model.config.num_hidden_layers
    for layer, expected in enumerate(theirs):
        np.testing.assert_allclose(ours.weights(layer), expected[0].numpy(), atol=TOLERANCE, rtol=0)


def test_every_row_adds_to_one(real: Loaded) -> None:
    ours = see(real.model, encoded(real, TEXT))
    for layer in range(real.model.config.num_hidden_layers):
        sums = ours.weights(layer).sum(axis=-1)
        np.testing.assert_allclose(sums, 1.0, atol=1e-6)  # float32 sums of at most 20 weights
