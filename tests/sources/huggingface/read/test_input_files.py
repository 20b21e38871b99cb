"""Arrays that no forward can take are refused by their names and shapes, before the model runs."""

import pytest
import torch

from attn_cli.errors import InputError
from attn_cli.sources.huggingface.read.input_files import as_arguments, file_prompt
from tests.sources.huggingface.models import tiny


def test_no_model_takes_itself() -> None:
    with pytest.raises(InputError, match=r"x\.npz: the model takes no self"):
        as_arguments(tiny("llama"), {"self": torch.ones(1, 3)}, "x.npz")


@pytest.mark.parametrize("shape", [(), (5,)])
@pytest.mark.parametrize("name", ["input_ids", "decoder_input_ids"])
def test_ids_are_rows(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=rf"x\.npz: {name} has shape"):
        file_prompt(tiny("llama"), None, {name: torch.ones(shape, dtype=torch.int64)}, "x.npz")


def test_names_that_no_module_of_a_model_takes_are_told() -> None:
    model, ids = tiny("llama"), torch.ones(1, 4, dtype=torch.int64)
    read = {"input_ids": ids, "position_ids": torch.tensor([[0, 2, 4, 6]])}
    swallowed = {"attention_masks": torch.zeros_like(ids), "head_mask": torch.zeros(2, 4)}
    assert torch.equal(model(**read, **swallowed)[0], model(**read)[0])
    told = file_prompt(model, None, read | swallowed, "x.npz").warnings
    assert told == ("the model ignores attention_masks, head_mask of x.npz",)
