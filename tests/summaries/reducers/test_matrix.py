"""Picked keys of a matrix are columns of the whole one, with picked rows and pooled as well."""

import numpy as np
import pytest

from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.explore.recordings import recording


@pytest.mark.parametrize("rows", [None, [3, 11], [17]], ids=str)
@pytest.mark.parametrize("keys", [[0], [2, 3], [1, 16, 19]], ids=str)
@pytest.mark.parametrize("mean", [False, True])
def test_picked_keys_are_columns(rows: list[int] | None, keys: list[int], mean: bool) -> None:
    call = recording(n=20).layers[1]
    whole = reduce(call, MatrixOf(kinds=("weights", "scores"), mean_heads=mean)).part(Matrix)
    picked = reduce(call, MatrixOf(kinds=("weights", "scores"), mean_heads=mean, rows=rows, keys=keys)).part(Matrix)
    assert whole is not None and picked is not None
    assert picked.keys == tuple(keys)
    some = slice(None) if rows is None else rows
    for name, values in picked.arrays().items():
        np.testing.assert_allclose(values, whole.arrays()[name][:, some][..., keys], rtol=1e-5)


def test_rows_beyond_the_most_are_pooled() -> None:
    call = recording(n=20).layers[0]
    picked = reduce(call, MatrixOf((7, None), keys=[4])).part(Matrix)
    assert picked is not None and picked.weights is not None
    assert picked.block == (3, 1)
    column = call.weights(0, slice(None), slice(4, 5))[:, 0]
    largest = [column[at : at + 3].max() for at in range(0, 20, 3)]
    np.testing.assert_allclose(picked.weights[0, :, 0], largest, rtol=1e-5)
