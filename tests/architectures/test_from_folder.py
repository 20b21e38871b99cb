"""A model of every type loaded from its folder, as a user has it, is the one that was saved there."""

from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedModel

from attn_cli.sources.huggingface.load.checkpoint import load
from attn_cli.sources.huggingface.load.model_classes import generating_class
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from tests.architectures.check import built
from tests.architectures.reasons import NOT_BUILT, NOT_SAVED
from tests.architectures.tiny import every_type

# Each states its sizes in a way of its own: by layer, by stack, as several stacks of text, under other names.
_WAYS = ("gpt2", "musicgen", "funnel")


@pytest.mark.parametrize("name", [name for name in _WAYS if name in every_type()])
def test_a_type_with_sizes_in_its_own_way(name: str, tmp_path: Path) -> None:
    model, _ = built(name)
    check_reloaded(model, tmp_path)


@pytest.mark.every_type
@pytest.mark.parametrize("name", every_type())
def test_any_type(name: str, tmp_path: Path) -> None:
    if reason := NOT_BUILT.get(name, NOT_SAVED.get(name)):
        pytest.skip(reason)
    try:
        model, _ = built(name)
    except ImportError as error:
        pytest.skip(str(error))
    check_reloaded(model, tmp_path)


def check_reloaded(model: PreTrainedModel, folder: Path) -> None:
    """Save, and load by the folder alone."""
    model.save_pretrained(folder)
    origin = find(str(folder), OriginOptions(reads_text=False))
    saved, read = model.state_dict(), load(origin).model
    loaded = read.state_dict()
    prefixes = {f"{of.base_model_prefix}." for of in (model, read)}  # Llama 4's two classes disagree
    spellings = {key: (key, *(p + key for p in prefixes), *(key.removeprefix(p) for p in prefixes)) for key in loaded}
    names = {key: next((name for name in spellings[key] if name in saved), None) for key in loaded}
    assert sum(name is None for name in names.values()) <= 2, names  # of a pooler that the saved class lacks
    for key, name in names.items():
        if name is not None:
            np.testing.assert_array_equal(loaded[key].float(), saved[name].float(), err_msg=key)
    if generating_class(model.config) is not None:
        assert load(origin, generates=True).generating is not None
