"""Eager's own weights, reproduced for the rules that models have: windows, caps, sinks, biases, three streams."""

import numpy as np
import pytest

from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from tests.sources.huggingface.models import KINDS, sentence, tiny
from tests.sources.huggingface.runs import TEXT, encoded, run_captured, run_plain

# float32 with scores of size 10: rounding in another order. Nothing here should be further off.
TOLERANCE = 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_and_its_sink_add_to_one(kind: str) -> None:
    model = tiny(kind)
    for summary in (run := run_captured(model, sentence(model))).summaries:
        place = summary.place
        sums = run.weights(place.layer, stream=place.stream).sum(axis=-1)
        scores = run.scores(place.layer, stream=place.stream).astype(np.float64)
        sink = np.zeros_like(sums)
        if kind == "gpt_oss":
            learned = model.layers[place.layer].self_attn.sinks.detach().numpy().astype(np.float64)[:, None]
            sink = np.exp(learned) / (np.exp(scores).sum(axis=-1) + np.exp(learned))
            assert sink.max() > 0.5  # large enough that leaving it out would show
        np.testing.assert_allclose(sums + sink, 1.0, atol=1e-5)  # float32 sums of 11 weights


def test_mistral_sees_four_keys_back() -> None:
    model = tiny("mistral")
    weights = run_captured(model, sentence(model)).weights(0)
    i, j = np.indices(weights.shape[1:])
    allowed = (j <= i) & (j > i - 4)
    assert (weights[:, ~allowed] == 0).all()
    assert (weights[:, allowed] > 0).all()


def test_gemma2_scores_stay_under_their_cap() -> None:
    model = tiny("gemma2")
    run = run_captured(model, sentence(model))
    scores = run.scores(1)[np.isfinite(run.scores(1))]
    assert np.abs(scores).max() <= 2.0
    assert np.abs(scores).max() > 1.5  # the cap is reached, or this proves nothing
    assert run.of(1).rule["softcap"] == 2.0


def test_every_layer_and_head_equals_eager(real: LoadedModel) -> None:
    inputs = encoded(real, TEXT)
    eager = run_plain(real.model, inputs, output_attentions=True).attentions
    run = run_captured(real.model, inputs)
    assert len(run.summaries) == len(eager) == real.model.config.num_hidden_layers
    for layer, expected in enumerate(eager):
        np.testing.assert_allclose(run.weights(layer), expected[0].numpy(), atol=TOLERANCE, rtol=0)
