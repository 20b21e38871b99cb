"""Grids equal what the reducers of other commands collect from the same layer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.call import Call
from attn_cli.explore.grids import Grid, HeadGrid, MeanGrid, WithoutSinks, WordGrid, hidden_keys
from attn_cli.kernel.definition.mask import dense
from attn_cli.summaries.calls.in_words import InWords
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from tests.explore.recordings import recording


def weights(call: Call, *, mean: bool = False) -> np.ndarray:
    part = reduce(call, MatrixOf(mean_heads=mean)).part(Matrix)
    assert part is not None
    assert part.weights is not None
    return part.weights


def cells(grid: Grid) -> np.ndarray:
    return grid.cells(slice(0, len(grid.queries)), slice(0, len(grid.keys)))


@pytest.mark.parametrize("causal", [True, False])
def test_heads_their_mean_and_words_are_those_of_attn_matrix(causal: bool) -> None:
    layer = recording(causal=causal).layers[1]
    masked = ~dense(layer.rule.mask, layer.n, layer.m, like=layer.like)
    for head in range(layer.h):
        expected = np.where(masked, np.nan, weights(layer)[head])
        np.testing.assert_allclose(cells(HeadGrid(layer, head)), expected, atol=1e-6)
    np.testing.assert_allclose(
        cells(MeanGrid(layer)), np.where(masked, np.nan, weights(layer, mean=True)[0]), atol=1e-6
    )
    words = WordGrid(HeadGrid(layer, 2))
    assert len(words.keys) < layer.m
    np.testing.assert_allclose(np.nan_to_num(cells(words)), weights(InWords(layer))[2], atol=1e-6)


@given(st.data())
def test_a_block_is_what_its_rows_give_to_its_keys_in_every_grid(data: st.DataObject) -> None:
    layer = recording().layers[0]
    head = HeadGrid(layer, 1)
    grids: list[Grid] = [head, MeanGrid(layer), WordGrid(head), WithoutSinks(head, hidden_keys(layer))]
    grid = data.draw(st.sampled_from(grids))
    spans = []
    for total in (len(grid.queries), len(grid.keys)):
        start = data.draw(st.integers(0, total - 1))
        spans.append(slice(start, data.draw(st.integers(start + 1, total))))
    block = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    scores = not isinstance(grid, WordGrid) and data.draw(st.booleans())
    whole = grid.cells(*spans, scores=scores)
    pooled = grid.pooled(spans[0], spans[1], block, scores=scores)
    assert pooled.shape == tuple(-(-size // step) for size, step in zip(whole.shape, block, strict=True))
    for (i, j), value in np.ndenumerate(pooled):
        cell = whole[i * block[0] : (i + 1) * block[0], j * block[1] : (j + 1) * block[1]]
        numbers = cell[~np.isnan(cell)].tolist()
        expected = max(numbers, key=abs) if scores and numbers else sum(numbers) / len(cell) if numbers else np.nan
        np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_sinks_are_left_blank() -> None:
    layer = recording().layers[0]
    grid = WithoutSinks(HeadGrid(layer, 0), hidden_keys(layer))
    assert hidden_keys(layer) == [0]
    assert np.isnan(cells(grid)[:, 0]).all()
    np.testing.assert_array_equal(cells(grid)[:, 1:], cells(HeadGrid(layer, 0))[:, 1:])
