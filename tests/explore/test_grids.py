"""A grid equals what the reducers of other commands collect from the same layer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.explore.grids import Grid
from attn_cli.kernel.definition.mask import dense
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.explore.recordings import recording


def cells(grid: Grid) -> np.ndarray:
    return grid.cells(slice(0, len(grid.queries)), slice(0, len(grid.keys)))


@pytest.mark.parametrize("causal", [True, False])
def test_heads_are_those_of_attn_matrix_and_sinks_left_blank(causal: bool) -> None:
    layer = recording(causal=causal).layers[1]
    masked = ~dense(layer.rule.mask, layer.n, layer.m, like=layer.like)
    part = reduce(layer, MatrixOf()).part(Matrix)
    assert part is not None and part.weights is not None
    for head in range(layer.h):
        expected = np.where(masked, np.nan, part.weights[head])
        np.testing.assert_allclose(cells(Grid(layer, head)), expected, atol=1e-6)
    hidden = cells(Grid(layer, 0, [2]))
    assert np.isnan(hidden[:, 2]).all()
    np.testing.assert_array_equal(np.delete(hidden, 2, 1), np.delete(cells(Grid(layer, 0)), 2, 1))


@given(st.data())
def test_a_block_is_what_its_rows_give_to_its_keys(data: st.DataObject) -> None:
    layer = recording().layers[0]
    grid, scores = Grid(layer, 1, data.draw(st.sampled_from([(), (0, 3)]))), data.draw(st.booleans())
    spans = []
    for total in (len(grid.queries), len(grid.keys)):
        start = data.draw(st.integers(0, total - 1))
        spans.append(slice(start, data.draw(st.integers(start + 1, total))))
    block = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    whole = grid.cells(*spans, scores=scores)
    pooled = grid.pooled(spans[0], spans[1], block, scores=scores)
    assert pooled.shape == tuple(-(-size // step) for size, step in zip(whole.shape, block, strict=True))
    for (i, j), value in np.ndenumerate(pooled):
        cell = whole[i * block[0] : (i + 1) * block[0], j * block[1] : (j + 1) * block[1]]
        numbers = cell[~np.isnan(cell)].tolist()
        expected = max(numbers, key=abs) if scores and numbers else sum(numbers) / len(cell) if numbers else np.nan
        np.testing.assert_allclose(value, expected, rtol=1e-5)
