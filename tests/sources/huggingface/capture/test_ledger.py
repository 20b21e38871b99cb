"""Counts, selection and the end of a pass by a ledger; no attention is computed."""

import pytest
from transformers import PreTrainedModel

from attn_cli.selection import Selection
from attn_cli.sources.huggingface.anatomy.module_places import ModulePlaces
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels
from attn_cli.sources.huggingface.capture.ledger import Ledger, SelectionDone
from tests.sources.huggingface.models import tiny


def ledger_of(model: PreTrainedModel, *layers: int) -> Ledger:
    return Ledger(model, Selection(layers=layers), BatchLabels(None, None, encoder_decoder=False))


def test_calls_are_counted_by_layer_and_selected_by_number() -> None:
    model = tiny("llama")
    first, second = ModulePlaces(model).attention
    ledger = ledger_of(model, -1)
    selected = [ledger.record(module, "registry").is_selected for module in (first, second, second)]
    assert selected == [False, True, True]
    assert ledger.calls == {("self", 0): 1, ("self", 1): 2}
    assert (ledger.total, ledger.blocks) == (3, {"self": 2})


def test_a_pass_ends_before_the_first_module_after_the_selected_ones() -> None:
    model = tiny("llama")
    first, second = ModulePlaces(model).attention
    ledger = ledger_of(model, 0)
    ledger.end_after_selection()
    ledger.record(first, "registry")
    with pytest.raises(SelectionDone):
        ledger.record(second, "registry")
    assert ledger.total == 1


@pytest.mark.parametrize("layers", [None, (1,)])
def test_a_pass_in_which_modules_run_once_may_end_with_the_last_selected(layers: tuple[int, ...] | None) -> None:
    model = tiny("llama")
    first, second = ModulePlaces(model).attention
    for usual, expected in (({first: 1, second: 1}, True), ({first: 1, second: 2}, False), ({first: 1}, False)):
        ledger = Ledger(model, Selection(layers=layers), BatchLabels(None, None, encoder_decoder=False))
        ledger.end_after_selection(usual)
        assert [ledger.record(module, "registry").is_last for module in (first, second)] == [False, expected]


def test_only_selected_modules_are_kept_as_unseen() -> None:
    model = tiny("llama")
    ledger = ledger_of(model, 1)
    for module in ModulePlaces(model).attention:
        ledger.record_unseen(module)
        ledger.record_not_over_keys(module)
    assert [place.layer for place in ledger.unseen] == [place.layer for place in ledger.not_over_keys] == [1]


def test_calls_of_a_text_are_numbered() -> None:
    model = tiny("llama")
    ledger = ledger_of(model, 0)
    place = ledger.record(ModulePlaces(model).attention[0], "registry").place
    numbers = [ledger.labels.place_of_text(place, 0, 1).call for _ in range(3)]
    assert numbers == [0, 1, 2]
