"""Statistics of each text of a padded batch are those of its own bands, and the batch's output is the model's."""

import gc
import weakref
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from attn_cli.call import Call
from attn_cli.kernel.cpu.library import is_built
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.summaries.reduce import Part, reduce
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import TopKeys
from tests.sources.huggingface.models import tiny
from tests.summaries.test_fused import FromBands

pytestmark = pytest.mark.skipif(not is_built(), reason="no C compiler was at hand when the package was installed")

# The first has one token, so that nothing stands after any of its queries; in one token 7 comes back.
TEXTS = ([9], [3, 7, 4, 7, 5, 6], [5, 5, 5], [4, 3, 9, 8, 7, 6, 11, 12, 13])
LONGEST = max(map(len, TEXTS))


def assert_equal(some: Sequence[Part], others: Sequence[Part]) -> None:
    for one, other in zip(some, others, strict=True):
        for name, values in other.arrays().items():
            np.testing.assert_allclose(one.arrays()[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", ["bert", "llama", "mistral", "gpt_oss", "gemma2"])
@torch.no_grad()
def test_as_from_the_bands_of_each_text(kind: str) -> None:
    model = tiny(kind)
    ids = torch.tensor([text + [0] * (LONGEST - len(text)) for text in TEXTS])
    inputs = {"input_ids": ids, "attention_mask": (torch.arange(LONGEST) < torch.tensor([[len(x)] for x in TEXTS])) * 1}
    layers: list[tuple[Part, Part]] = []

    def look(call: Call) -> None:
        layers.append(tuple(reduce(call, each).parts[0] for each in (HeadStatistics(), FromBands(HeadStatistics()))))

    plain = model(**inputs)
    labels = [[Token(at, str(number), number) for at, number in enumerate(text)] for text in TEXTS]
    with capture(model, look, texts=labels):
        captured = model(**inputs)
    real = inputs["attention_mask"].bool()  # beyond a window's reach padding sees nothing, for which models vary
    everywhere = kind in ("bert", "llama")
    compared = torch.ones_like(real) if everywhere else real
    torch.testing.assert_close(captured[0][compared], plain[0][compared], rtol=1e-4, atol=1e-4)
    assert len(layers) == 2 * len(TEXTS)
    assert_equal(*zip(*layers, strict=True))


@torch.no_grad()
def test_cells_beside_other_numbers_are_of_capped_scores() -> None:
    model, layers = tiny("gemma2"), list[tuple[Part, Part]]()

    def look(call: Call) -> None:
        alone = reduce(call, FromBands(HeadStatistics())).parts[0]
        layers.append((reduce(call, HeadStatistics(), TopKeys(3)).parts[0], alone))

    with capture(model, look):
        model(input_ids=torch.tensor([[4, 5, 6, 4], [7, 8, 9, 3]]))
    assert len(layers) == 4
    assert_equal(*zip(*layers, strict=True))


@torch.no_grad()
def test_a_layer_goes_when_its_texts_were_visited() -> None:
    model, visited = tiny("llama"), list[weakref.ref[Call]]()
    gc.disable()  # circles of objects would wait for it

    def look(call: Call) -> None:
        reduce(call, HeadStatistics())
        visited.append(weakref.ref(call))

    try:
        with capture(model, look):
            model(input_ids=torch.tensor([[4, 5, 6, 4], [7, 8, 9, 3], [6, 6, 7, 8]]))
        assert [call() for call in visited] == [None] * 6
    finally:
        gc.enable()
