"""A padded text is seen as if it ran alone: same tokens, same numbers, whichever side the padding is on."""

import numpy as np
import pytest

from attn_cli.call import Call
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.heads import RULES, Heads, HeadStatistics
from attn_cli.summaries.reducers.keys import Top, TopKeys
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.sources.huggingface.runs import OTHER, TEXT, encoded, run_captured, run_plain

TEXTS = (OTHER, TEXT, "river bank")
# The same float32 arithmetic on matrices of other sizes, which BLAS sums in another order.
TOLERANCE = 1e-5


def summaries(source: ModelSource, texts: tuple[str, ...]) -> dict[tuple[int, int], Summary]:
    """By (text, layer)."""
    found = {}

    def visit(call: Call) -> None:
        found[call.place.text, call.place.layer] = reduce(
            call, MatrixOf(kinds=("weights", "scores")), HeadStatistics(), TopKeys(2)
        )

    source.each(source.read(texts), Selection(), visit)
    return found


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_gives_what_each_text_gives_alone(
    real: LoadedModel, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real.tokenizer, "padding_side", side)
    source = ModelSource(real)
    together = summaries(source, TEXTS)
    for number, text in enumerate(TEXTS):
        for (_, layer), alone in summaries(source, (text,)).items():
            batched = together[number, layer]
            assert batched.queries == alone.queries
            assert batched.keys == alone.keys
            for kind in (Matrix, Heads, Top):
                ours, expected = batched.part(kind).arrays(), alone.part(kind).arrays()
                assert ours.keys() == expected.keys()
                weights = alone.part(Matrix).weights
                rounded = (abs(weights.max(-1) - RULES) < TOLERANCE * 10).mean(-1)  # rows that rounding may turn over
                for name in expected:
                    if name == "ruled":
                        assert (abs(ours[name] - expected[name]) <= rounded + TOLERANCE).all()
                    elif np.issubdtype(expected[name].dtype, np.floating):
                        # scores reach 60, and a small one is a sum of terms as large: a millionth of these
                        near = 6 * TOLERANCE if name == "scores" else TOLERANCE
                        np.testing.assert_allclose(ours[name], expected[name], atol=near, rtol=1e-4)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_batch_equals_eager_on_the_same_batch(real: LoadedModel, side: str) -> None:
    inputs = encoded(real, *TEXTS, side=side)
    theirs = run_plain(real.model, inputs, output_attentions=True).attentions
    ours = run_captured(real.model, inputs)
    for number in range(len(TEXTS)):
        counted = inputs["attention_mask"][number].bool()
        for layer, expected in enumerate(theirs):
            part = expected[number][:, counted][:, :, counted]
            np.testing.assert_allclose(ours.weights(layer, number), part.numpy(), atol=TOLERANCE)
