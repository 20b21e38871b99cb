"""A model is known again, and told from one of which a single number differs."""

import pytest
import torch
from torch import nn

from attn_cli.sources.huggingface.anatomy.parameters import fingerprint


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("place", [(0, 0), (50, 77), (89, 92)])
def test_any_number_counts(place: tuple[int, int], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Linear(93, 90).to(dtype)  # 8,370 numbers: two blocks and the rest of one
    before = fingerprint(model)
    assert fingerprint(nn.Linear(93, 90).to(dtype)) != before
    with torch.no_grad():
        kept = model.weight[place].clone()
        for changed in (kept * 1.01, torch.tensor(float("nan"), dtype=dtype)):
            model.weight[place] = changed
            assert fingerprint(model) != before
        model.weight[place] = kept
    assert fingerprint(model) == before
