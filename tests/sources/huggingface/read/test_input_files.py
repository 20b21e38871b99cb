"""Arrays that no forward can take are refused by their names and shapes, before the model runs."""

from pathlib import Path

import pytest
import torch

from attn_cli.errors import InputError
from attn_cli.sources.huggingface.capture.session import capture
from attn_cli.sources.huggingface.read.input_files import as_arguments, file_prompt
from tests.architectures.tiny import tiny_model
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


@pytest.mark.parametrize("kind", ["llama", "falcon", "got_ocr2"])
def test_a_mask_of_truth_values_is_read_as_the_model_by_default_reads_it(kind: str, tmp_path: Path) -> None:
    model, ids = tiny_model(kind, "tiny"), torch.arange(5, 13)[None]
    model.save_pretrained(tmp_path)
    default = type(model).from_pretrained(tmp_path).eval()
    mask = torch.ones(8, 8).tril().bool() & (torch.arange(8) != 2) | torch.eye(8, dtype=torch.bool)
    prompt = file_prompt(model, None, {"input_ids": ids, "attention_mask": mask[None, None]}, "x.npz")
    with torch.no_grad(), capture(model, lambda call: None):
        shown = model(**prompt.arrays).logits
    with torch.no_grad():
        torch.testing.assert_close(shown, default(input_ids=ids, attention_mask=mask[None, None]).logits)
