"""A padded text is seen as if it ran alone: same tokens, same numbers, whichever side the padding is on."""

import numpy as np
import pytest

from attn_cli.call import Call
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.reduce import Summary, reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.sources.huggingface.runs import OTHER, TEXT

TEXTS = (OTHER, TEXT, "river bank")
# The same float32 arithmetic on matrices of other sizes, which BLAS sums in another order; scores reach 60.
TOLERANCE = {"weights": 1e-5, "scores": 6e-5}


def summaries(source: ModelSource, texts: tuple[str, ...]) -> dict[tuple[int, int], Summary]:
    """By (text, layer)."""
    found = {}

    def visit(call: Call) -> None:
        found[call.place.text, call.place.layer] = reduce(call, MatrixOf(kinds=("weights", "scores")))

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
            assert (batched.queries, batched.keys) == (alone.queries, alone.keys)
            ours, expected = (summary.part(Matrix).arrays() for summary in (batched, alone))
            for name, tolerance in TOLERANCE.items():
                np.testing.assert_allclose(ours[name], expected[name], atol=tolerance, rtol=1e-4)
