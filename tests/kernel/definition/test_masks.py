"""Every mask's span is what its cells say; a dilated window is Longformer's."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.mask import (
    causal,
    dense,
    dilated,
    intervals,
    window,
)
from attn_cli.kernel.definition.rule import Rule
from tests.strategies import Problem, problems


@given(problems(), st.data())
def test_a_span_holds_all_visible_keys_and_its_open_part_no_masked_one(problem: Problem, data: st.DataObject) -> None:
    n, m = problem.q.shape[1], problem.k.shape[1]
    start = data.draw(st.integers(0, n - 1))
    stop = data.draw(st.integers(start + 1, n))
    mask = problem.rule.mask
    cells = np.broadcast_to(dense(mask, n, m, like=problem.q), (problem.q.shape[0], n, m))[:, start:stop]
    span = mask.span(start, stop, m)
    assert 0 <= span.first <= span.open_first <= span.open_last <= span.last <= m
    assert not cells[..., : span.first].any()
    assert not cells[..., span.last :].any()
    assert cells[..., span.open_first : span.open_last].all()


@given(problems())
def test_the_intervals_of_a_mask_are_its_cells(problem: Problem) -> None:
    n, m = problem.q.shape[1], problem.k.shape[1]
    seen = intervals(problem.rule.mask, n, m)
    cells = dense(problem.rule.mask, n, m, like=problem.q)
    if seen is not None:
        keys = np.arange(m)
        between = (keys >= seen.first[:, None]) & (keys < seen.last[:, None])
        np.testing.assert_array_equal(between, cells.reshape(n, m))
    else:
        parts = problem.rule.mask.parts or (problem.rule.mask,)
        assert any(part.keys is not None or part.cells is not None for part in parts)


numbers = st.integers(1, 6)


@given(numbers, numbers, st.integers(1, 24), st.integers(1, 24), st.integers(-5, 5), st.booleans())
def test_a_dilated_window_counts_keys_as_longformer_does(size, gap, n, m, offset, ahead: bool) -> None:
    """Key by key: size - 1 steps of `gap` before the query, itself, and, without a causal mask, as many after it."""
    expected = np.zeros((n, m), bool)
    for i in range(n):
        for step in range(-(size - 1), size if ahead else 1):
            if 0 <= i + offset + step * gap < m:
                expected[i, i + offset + step * gap] = True
    cells = dense(dilated(size, gap, offset), n, m, like=np.empty(0))
    if not ahead:
        cells = cells & dense(causal(offset), n, m, like=np.empty(0))
    np.testing.assert_array_equal(cells, expected)


@given(numbers, numbers, st.integers(1, 24), st.integers(0, 2**32 - 1))
def test_a_dilated_window_is_a_window_in_each_interleaved_part(size: int, gap: int, n: int, seed: int) -> None:
    """Tokens 0, D, 2D, ... attend among themselves as in a plain window, so do 1, D + 1, 2D + 1, ..., and so on."""
    q, k, v = np.random.default_rng(seed).normal(size=(3, 2, n, 4))
    output = np.empty_like(v)
    for part in (slice(at, None, gap) for at in range(min(gap, n))):
        output[:, part] = attend(
            q[:, part], k[:, part], v[:, part], Rule(0.5, mask=window(size, 0, both_sides=True))
        ).output
    result = attend(q, k, v, Rule(0.5, mask=dilated(size, gap))).output
    np.testing.assert_allclose(result, output, rtol=1e-12, atol=1e-13)
