"""The largest entries of long rows are sought by groups: equal ones still come by position."""

import numpy as np
import pytest
import torch

from attn_cli.kernel.stats.topk import heaviest


@pytest.mark.parametrize("tensors", [True, False])
@pytest.mark.parametrize(("places", "count"), [([5, 64], 1), ([5, 64, 300, 301], 3), ([], 4)])
def test_of_equal_entries_the_first_are_taken(places: list[int], count: int, tensors: bool) -> None:
    row = np.zeros((1, 512), np.float32)
    row[0, places] = 1
    expected = np.argsort(-row, axis=1, kind="stable")[:, :count]
    found = heaviest(torch.from_numpy(row) if tensors else row, count)[1]
    assert np.asarray(found).tolist() == expected.tolist()
