"""Statistics made for all texts of a padded batch at once are those of each text's own bands."""

import gc
import weakref

import numpy as np
import pytest
import torch

from attn_cli.call import AttentionCall, Call
from attn_cli.kernel.cpu.c_library import is_built
from attn_cli.prompt import Token
from attn_cli.selection import Selection
from attn_cli.sources.huggingface import onednn_linear
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.reduce import Part, reduce
from attn_cli.summaries.reducers.heads.head_statistics import HeadStatistics
from attn_cli.summaries.reducers.top import TopKeys
from tests.sources.huggingface.models import tiny
from tests.summaries.test_fused import FromBands

pytestmark = pytest.mark.skipif(not is_built(), reason="no C compiler was at hand when the package was installed")

# The first has one token, so that nothing stands after any of its queries; in one token 7 comes back.
TEXTS = ([9], [3, 7, 4, 7, 5, 6], [5, 5, 5], [4, 3, 9, 8, 7, 6, 11, 12, 13])
LONGEST = max(map(len, TEXTS))


@pytest.mark.parametrize("rescale", [False, True])
@pytest.mark.parametrize("kind", ["bert", "llama", "mistral", "gpt_oss", "gemma2"])
@torch.no_grad()
def test_as_from_the_bands_of_each_text(kind: str, rescale: bool) -> None:
    model = tiny(kind)
    ids = torch.tensor([text + [0] * (LONGEST - len(text)) for text in TEXTS])
    inputs = {"input_ids": ids, "attention_mask": (torch.arange(LONGEST) < torch.tensor([[len(x)] for x in TEXTS])) * 1}
    pairs: list[tuple[Part, Part]] = []
    shared: list[bool] = []

    def visit(call: Call) -> None:
        (in_bands,) = reduce(call, FromBands(HeadStatistics(rescale=rescale))).parts
        (together,) = reduce(call, HeadStatistics(rescale=rescale)).parts
        assert isinstance(call, AttentionCall) and call.output is not None and call.output.complete
        shared.append(call.batch is not None and call.batch.rows.walked)
        pairs.append((together, in_bands))

    plain = model(**inputs)
    labels = [[Token(at, str(number), number) for at, number in enumerate(text)] for text in TEXTS]
    with capture(model, visit, texts=labels):
        captured = model(**inputs)
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(captured[0][real], plain[0][real], rtol=1e-4, atol=1e-4)
    assert len(pairs) == 2 * len(TEXTS)
    assert all(shared)
    for together, in_bands in pairs:
        for name, values in in_bands.arrays().items():
            np.testing.assert_allclose(together.arrays()[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


@torch.no_grad()
def test_a_text_of_which_more_is_asked_goes_alone() -> None:
    model, parts = tiny("llama"), []

    def visit(call: Call) -> None:
        if call.place.text == 1:
            reduce(call, TopKeys(2))
        parts.append((reduce(call, HeadStatistics()).parts[0], reduce(call, FromBands(HeadStatistics())).parts[0]))

    with capture(model, visit):
        model(input_ids=torch.tensor([[4, 5, 6, 4], [7, 8, 9, 3], [6, 6, 7, 8]]))
    for some, in_bands in parts:
        np.testing.assert_allclose(some.arrays()["entropy_bits"], in_bands.arrays()["entropy_bits"], atol=1e-5)


@torch.no_grad()
def test_cells_beside_other_numbers_are_of_capped_scores() -> None:
    model, pairs = tiny("gemma2"), []

    def visit(call: Call) -> None:
        (alone,) = reduce(call, FromBands(HeadStatistics())).parts
        pairs.append((reduce(call, HeadStatistics(), TopKeys(3)).parts[0], alone))

    with capture(model, visit):
        model(input_ids=torch.tensor([[4, 5, 6, 4], [7, 8, 9, 3]]))
    for beside, alone in pairs:
        for name, values in alone.arrays().items():
            np.testing.assert_allclose(beside.arrays()[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


@torch.no_grad()
def test_a_layer_goes_when_its_texts_were_visited() -> None:
    model, visited = tiny("llama"), list[weakref.ref[Call]]()
    kept: list[tuple[Call, Part]] = []

    def visit(call: Call) -> None:
        (part,) = reduce(call, HeadStatistics()).parts
        if not kept:
            kept.append((call, part))
        elif call.place.layer > 0:
            visited.append(weakref.ref(call))

    gc.disable()  # circles of objects would wait for it
    try:
        with capture(model, visit):
            model(input_ids=torch.tensor([[4, 5, 6, 4], [7, 8, 9, 3], [6, 6, 7, 8]]))
        assert [call() for call in visited] == [None] * 3
    finally:
        gc.enable()
    ((call, part),) = kept  # a call that somebody keeps goes alone
    (again,) = reduce(call, HeadStatistics()).parts
    np.testing.assert_allclose(again.arrays()["entropy_bits"], part.arrays()["entropy_bits"], atol=1e-5)


@pytest.mark.skipif(not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch was built without oneDNN")
def test_corpora_are_multiplied_by_onednn_and_single_texts_as_the_model_does(
    minilm: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    product, shapes = onednn_linear.product, list[torch.Size]()

    def noted(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        shapes.append(weight.shape)
        return product(x, weight, bias)

    monkeypatch.setattr(onednn_linear, "onednn_is_wider", lambda: True)
    monkeypatch.setattr(onednn_linear, "product", noted)
    source = ModelSource(minilm)
    texts = ["the river bank was steep and the bank of the town was closed"] * 3
    source.each(source.read(texts), Selection(), lambda call: None)
    assert not shapes
    source.each_encoded(source.encode(texts), Selection(), lambda call: None)
    assert (1536, 384) in shapes
