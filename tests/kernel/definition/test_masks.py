"""Every mask's span is what its cells say; a dilated window is Longformer's."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.heads import join_heads, split_heads
from attn_cli.kernel.definition.latent import Latent
from attn_cli.kernel.definition.mask import causal, dense, dilated, intervals
from attn_cli.kernel.definition.mask import dense as dense_mask
from attn_cli.kernel.definition.positions import rotary, sinusoidal
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


# Sums of a few dozen float64 numbers of size 1 in another order.
CLOSE = {"rtol": 1e-11, "atol": 1e-12}
sizes = st.integers(1, 6)
seeds = st.integers(0, 2**32 - 1)


@given(problems(raw=True))
def test_grouped_keys_are_repeated_keys(problem: Problem) -> None:
    times = problem.q.shape[0] // problem.k.shape[0]
    grouped = attend(problem.q, problem.k, problem.v, problem.rule)
    repeated = attend(problem.q, np.repeat(problem.k, times, 0), np.repeat(problem.v, times, 0), problem.rule)
    np.testing.assert_allclose(grouped.output, repeated.output, **CLOSE)
    np.testing.assert_allclose(grouped.weights, repeated.weights, **CLOSE)


@given(sizes, sizes, sizes, sizes, sizes, sizes, st.integers(0, 4), seeds)
def test_the_absorbed_form_is_the_plain_one(h: int, n: int, m: int, r: int, d: int, e: int, p: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(m, p)) if p else None
    latent = Latent(rng.normal(size=(m, r)), rng.normal(size=(h, r, d)), rng.normal(size=(h, r, e)), shared)
    q = rng.normal(size=(h, n, d + p))
    plain = attend(*latent.expanded(q), Rule(0.5))
    absorbed = attend(*latent.absorbed(q), Rule(0.5))
    np.testing.assert_allclose(absorbed.scores, plain.scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        absorbed.weights, plain.weights, rtol=1e-8, atol=1e-9
    )  # scores of size 50 lose two digits
    np.testing.assert_allclose(absorbed.output @ latent.up_v, plain.output, rtol=1e-8, atol=1e-8)
    assert latent.cached == r + p


@given(problems(), st.floats(-50, 50), seeds)
def test_a_constant_added_to_a_row_of_scores_changes_nothing(problem: Problem, constant: float, seed: int) -> None:
    rule = problem.rule
    assume(rule.sink is None)
    n, m = problem.q.shape[1], problem.k.shape[1]
    shift = np.zeros((1, n, 1))
    shift[0, seed % n] = constant
    bias = rule.bias_of(0, n, 0, m)
    plain = attend(problem.q, problem.k, problem.v, rule)
    total = np.zeros((1, n, m)) + shift if bias is None else bias + shift
    shifted = attend(problem.q, problem.k, problem.v, Rule(rule.scale, rule.softcap, total, rule.mask))
    np.testing.assert_allclose(shifted.weights, plain.weights, rtol=1e-9, atol=1e-13)  # 50 more costs two digits


@given(problems(raw=True))
def test_masked_cells_weigh_exactly_nothing(problem: Problem) -> None:
    result = attend(problem.q, problem.k, problem.v, problem.rule)
    allowed = dense_mask(problem.rule.mask, problem.q.shape[1], problem.k.shape[1], like=problem.q)
    masked = np.broadcast_to(~allowed, result.weights.shape)
    assert (result.weights[masked] == 0).all()
    dead = masked.all(axis=-1)
    assert (result.output[dead] == 0).all()
    assert np.isfinite(result.output).all()


@given(sizes, sizes, sizes, seeds)
def test_joined_heads_are_the_uncut_matrix(h: int, n: int, d: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(n, h * d))
    np.testing.assert_array_equal(join_heads(split_heads(x, h)), x)


@given(st.integers(1, 4), st.integers(0, 40), st.integers(0, 40), st.integers(0, 60), st.booleans(), seeds)
def test_rotated_products_know_the_distance_alone(half: int, i: int, j: int, by: int, interleaved: bool, seed) -> None:
    q, k = np.random.default_rng(seed).normal(size=(2, 1, 2 * half))

    def product(at: int, key_at: int) -> float:
        turned = [rotary(x, np.array([float(p)]), interleaved=interleaved) for x, p in ((q, at), (k, key_at))]
        return float((turned[0] * turned[1]).sum())

    np.testing.assert_allclose(product(i + by, j + by), product(i, j), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(product(0, 0), float((q * k).sum()), **CLOSE)


@given(st.integers(1, 9), st.integers(0, 99))
def test_sines_are_those_of_the_paper(width: int, position: int) -> None:
    result = sinusoidal(np.array([float(position)]), width)[0]
    for column in range(width):
        angle = position / 10000 ** (2 * (column // 2) / (width + width % 2))
        np.testing.assert_allclose(result[column], np.cos(angle) if column % 2 else np.sin(angle), atol=1e-12)
