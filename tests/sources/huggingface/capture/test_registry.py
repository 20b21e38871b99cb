"""The model's own attention left in place: what is seen beside it is what eager returns."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel, load
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix
from tests.sources.huggingface.models import KINDS, sentence, tiny
from tests.sources.huggingface.runs import TEXT

TOLERANCE = 1e-4  # the scores of these models reach 100, and a T5 does not scale them
# Which backends a kind has; the others need a softcap, a sink or a bias that torch's SDPA has no words for.
HAVE_SDPA = sorted(set(KINDS) - {"gemma2", "gpt_oss", "t5gemma"})


def calls_beside(model: PreTrainedModel, inputs: dict[str, Any], **options: Any) -> list[tuple[str, np.ndarray]]:
    """The stream and weights of every call."""
    calls: list[tuple[str, np.ndarray]] = []

    def visit(call: Call) -> None:
        assert call.place.way in ("beside", "sdpa", "softmax")
        matrix = reduce(call, FullMatrix()).part(Matrix)
        assert matrix is not None and matrix.weights is not None
        calls.append((call.place.stream, matrix.weights))

    with capture(model, visit, backend="model", **options), torch.no_grad():
        model(**inputs)
    return calls


@pytest.mark.parametrize(
    ("kind", "backend"), [*((kind, "eager") for kind in KINDS), *((kind, "sdpa") for kind in HAVE_SDPA)]
)
@pytest.mark.parametrize("padded", [False, True])
def test_it_sees_what_eager_returns(kind: str, backend: str, padded: bool) -> None:
    model = tiny(kind)
    inputs = sentence(model)
    n = inputs["input_ids"].shape[1]
    if padded:
        inputs["attention_mask"] = torch.tensor([[1] * (n - 2) + [0] * 2])
    with torch.no_grad():
        eager = model(**inputs, output_attentions=True)
        model.set_attn_implementation(backend)
        before = model(**inputs)[0]
    calls = calls_beside(model, inputs)
    names = ("encoder_attentions", "decoder_attentions", "cross_attentions")
    streams = {"encoder": 0, "decoder": 1, "cross": 2, "self": 0}
    expected = [getattr(eager, x) for x in names] if "encoder_attentions" in eager else [eager.attentions]
    at = [0, 0, 0]
    for stream, weights in calls:
        which = streams[stream]
        whole = expected[which][at[which]][0].numpy()
        at[which] += 1
        keys = whole.shape[-1] - 2 * (padded and stream != "decoder")
        rows = weights.shape[1]
        np.testing.assert_allclose(weights[..., :keys], whole[:, :rows, :keys], atol=TOLERANCE)
    assert sum(at) == sum(len(x) for x in expected)
    with torch.no_grad():
        assert torch.equal(model(**inputs)[0], before)


def test_the_model_computes_its_own_output() -> None:
    """To the bit, which its output from bands would not be."""
    model = tiny("llama")
    model.set_attn_implementation("sdpa")
    outputs = []
    with torch.no_grad():
        outputs.append(model(**sentence(model))[0])
        with capture(model, lambda call: reduce(call, FullMatrix()), backend="model"):
            outputs.append(model(**sentence(model))[0])
    assert torch.equal(*outputs)


def test_flash_attention_is_told_padding_and_windows_beside_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in with flash attention's calling convention: a row of real keys or none, and a window by name."""
    from transformers import AttentionInterface, AttentionMaskInterface

    model = tiny("mistral")
    inputs = sentence(model) | {"attention_mask": torch.tensor([[1] * 9 + [0] * 2])}
    with torch.no_grad():
        eager = model(**inputs, output_attentions=True).attentions

    def flash(module: Any, query: Any, key: Any, value: Any, mask: Any, **named: Any) -> Any:
        assert mask is None or mask.ndim == 2
        assert named["sliding_window"] == 4
        return query.new_zeros(query.shape).transpose(1, 2), None  # what comes out is not looked at here

    monkeypatch.setitem(AttentionInterface._global_mapping, "flash_attention_2", flash)
    assert "flash_attention_2" in AttentionMaskInterface._global_mapping
    monkeypatch.setattr(model.config, "_attn_implementation_internal", "flash_attention_2")
    calls = calls_beside(model, inputs, selection=Selection(layers=(0,)))
    np.testing.assert_allclose(calls[0][1], eager[0][0, :, :9, :9], atol=TOLERANCE)


def test_a_backend_whose_masks_cannot_be_read_is_refused() -> None:
    model = tiny("llama")
    model.config._attn_implementation_internal = "flex_attention"
    with pytest.raises(InputError, match="flex_attention"), capture(model, lambda call: None, backend="model"):
        pass


@pytest.mark.parametrize("backend", ["model", "sdpa", "eager"])
def test_a_real_model_beside_its_own_attention(minilm_folder: Any, minilm: LoadedModel, backend: str) -> None:
    beside = ModelSource(load(find(str(minilm_folder), OriginOptions(backend=backend))))
    by_source = []
    for source in (ModelSource(minilm), beside):
        matrices: list[np.ndarray] = []

        def visit(call: Call, matrices: list[np.ndarray] = matrices) -> None:
            matrices.append(reduce(call, FullMatrix()).parts[0].arrays()["weights"])

        source.each(source.read([TEXT, "river bank"]), Selection(), visit)
        by_source.append(matrices)
    assert len(by_source[0]) == len(by_source[1]) == 12
    for by_attn, by_model in zip(*by_source, strict=True):
        np.testing.assert_allclose(by_attn, by_model, atol=TOLERANCE)


def test_a_device_map(minilm_folder: Any, minilm: LoadedModel) -> None:
    spread = load(find(str(minilm_folder), OriginOptions(device_map="auto")))
    source = ModelSource(spread)
    layers: list[int] = []
    source.each(source.read([TEXT]), Selection(layers=(5,)), lambda call: layers.append(call.place.layer))
    assert layers == [5]
    with pytest.raises(InputError, match="--device-map"):
        find(str(minilm_folder), OriginOptions(device_map="auto", device="cpu"))
