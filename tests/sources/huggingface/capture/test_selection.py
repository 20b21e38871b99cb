"""Only selected layers and heads are visited; the rest of the model runs as without a capture."""

import numpy as np
import pytest
import torch

from attn_cli.call import Call
from attn_cli.errors import InputError
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.sources.huggingface.models import KINDS, sentence, tiny
from tests.sources.huggingface.runs import TEXT, encoded, run_captured, run_plain


def visited(loaded: LoadedModel, selection: Selection) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    places = []

    def visit(call: Call) -> None:
        assert call.h == len(call.place.heads)
        places.append((call.place.layer, call.place.heads, call.place.groups))

    source = ModelSource(loaded)
    source.each(source.read([TEXT]), selection, visit)
    return places


def test_layers_and_heads(smollm: LoadedModel) -> None:
    places = visited(smollm, Selection(layers=(28, 3), heads=(0, 4, 8)))
    assert places == [(3, (0, 4, 8), (0, 1, 2)), (28, (0, 4, 8), (0, 1, 2))]


def test_single_heads_of_several_layers(smollm: LoadedModel) -> None:
    pairs = ((18, 6), (17, 3), (-1, -9), (18, 0))
    assert visited(smollm, Selection(pairs=pairs)) == [(17, (3,), (1,)), (18, (0, 6), (0, 2)), (29, (0,), (0,))]
    planned = ModelSource(smollm).planned_layers(Selection(pairs=pairs))
    assert planned == [(17, 1), (18, 2), (29, 1)]


@pytest.mark.parametrize(
    ("pair", "message", "hint"),
    [
        ((3, 12), "there is no head 3.12", "layer 3 has heads 0-11"),
        ((-1, -13), "there is no head 5.-13", "layer 5 has heads 0-11"),
        ((6, 0), "there is no layer 6", " has layers 0-5"),
    ],
)
def test_a_single_head_that_is_not_there(minilm: LoadedModel, pair: tuple[int, int], message: str, hint: str) -> None:
    with pytest.raises(InputError) as refusal:
        visited(minilm, Selection(pairs=(pair,)))
    assert refusal.value.message == message
    assert refusal.value.hint.endswith(hint)


def test_what_is_shown_does_not_depend_on_the_choice(real: LoadedModel) -> None:
    inputs = encoded(real, TEXT)
    everything = run_captured(real.model, inputs)
    some = run_captured(real.model, inputs, Selection(layers=(2, -1), heads=(5, 1)))
    assert [s.place.layer for s in some.summaries] == [2, real.model.config.num_hidden_layers - 1]
    for summary in some.summaries:
        layer = summary.place.layer
        # 1e-5: layers before it went through SDPA here and through bands there
        np.testing.assert_allclose(some.weights(layer), everything.weights(layer)[[1, 5]], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("padded", [False, True])
def test_layers_that_are_not_selected_compute_what_they_compute_without_a_capture(kind: str, padded: bool) -> None:
    model = tiny(kind)
    inputs = sentence(model, texts=2)
    counted = torch.ones(2, inputs.get("decoder_input_ids", inputs["input_ids"]).shape[1], dtype=torch.bool)
    if padded:
        inputs["attention_mask"] = torch.tensor([[1] * 11, [1] * 8 + [0] * 3])
        if not model.config.is_encoder_decoder:
            counted = inputs["attention_mask"].bool()
    nothing = Selection(layers=())
    run = run_captured(model, inputs, nothing)
    assert run.summaries == []
    torch.testing.assert_close(run.outputs[0][counted], run_plain(model, inputs)[0][counted], atol=1e-4, rtol=0)


@pytest.mark.parametrize("layers", [(), (0, 1)])
def test_two_texts_packed_in_one_row(layers: tuple[int, ...]) -> None:
    model = tiny("llama")
    # With a cache transformers doesn't look for packed texts.
    inputs = sentence(model) | {"position_ids": torch.tensor([[*range(6), *range(5)]]), "use_cache": False}
    run = run_captured(model, inputs, Selection(layers=layers))
    torch.testing.assert_close(run.outputs[0], run_plain(model, inputs)[0], atol=1e-4, rtol=0)
    for summary in run.summaries:
        assert (run.weights(summary.place.layer)[:, 6:, :6] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_pass_ends_after_the_last_selected_layer(kind: str) -> None:
    """The same is seen as in a whole pass, and the blocks above don't run."""
    model = tiny(kind)
    first = Selection(layers=(0,))
    places = ModulePlaces(model)
    modules = {module: places.of(module)[0].layer for module in places.attention}
    assert {*modules.values()} == {0, 1}
    runs: list[list[np.ndarray]] = []
    for until_asked in (False, True):
        matrices: list[np.ndarray] = []

        def visit(call: Call, matrices: list[np.ndarray] = matrices) -> None:
            matrix = reduce(call, MatrixOf()).part(Matrix)
            assert matrix is not None and matrix.weights is not None
            matrices.append(matrix.weights)

        ended = False
        with capture(model, visit, selection=first) as ledger, torch.no_grad():
            if until_asked:
                ledger.end_after_selection()
            model(**sentence(model))
            ended = True
        runs.append(matrices)
        assert ended == (not until_asked)
        # In an encoder-decoder the encoder's last block comes before the decoder's first.
        assert all(module in ledger.runs for module in modules) == (not until_asked)
    assert len(runs[0]) == len(runs[1]) > 0
    for whole, cut in zip(*runs, strict=True):
        np.testing.assert_array_equal(whole, cut)
