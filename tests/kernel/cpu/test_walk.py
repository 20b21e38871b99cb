"""The compiled walk is the definition: outputs and all that is noted of rows, for every width of vectors."""

import multiprocessing
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_cli.kernel.bands.threads import available_cores
from attn_cli.kernel.cpu.library import is_built, widest_vectors
from attn_cli.kernel.cpu.walk import NOTED_MOMENTS, compiled_stats, numpy_stats, suits
from attn_cli.kernel.cpu.walk import walked as walked_by
from attn_cli.kernel.definition import dense
from attn_cli.kernel.definition.bias import Alibi
from attn_cli.kernel.definition.mask import Mask, all_of, causal, given_mask, intervals, padding, prefix, window
from attn_cli.kernel.definition.mask import dense as dense_mask
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.wanted import ColumnSums, Pool, RankedKeys, RowStats, TopK, Wanted

# float32 sums of up to a few hundred numbers, in another order than the float64 that they are held against.
CLOSE = {"rtol": 2e-5, "atol": 2e-5}
VECTORS = range(widest_vectors() + 1)


@pytest.fixture(scope="module", autouse=True)
def all_threads() -> Iterator[None]:
    """One for every core, and two at least; processes that share the tests have one."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(2, available_cores()))
    yield
    torch.set_num_threads(before)


built = pytest.mark.skipif(not is_built(), reason="no C compiler was at hand when the package was installed")


def masks(n: int, m: int) -> dict[str, Mask]:
    offset = m - n
    return {
        "open": Mask(),
        "causal": causal(),
        "causal to the last key": causal(offset),
        "window": all_of(causal(offset), window(5, offset)),
        "both sides": window(3, offset, both_sides=True),
        "padding": padding(np.arange(m) < m - m // 3),
        "no key": padding(np.zeros(m, dtype=bool)),
        "prefix": prefix(3, offset),
        "given": given_mask(np.tri(n, m, offset, dtype=bool) & (np.arange(m) > 0)),
        "given, one for all heads": given_mask(np.tri(n, m, dtype=bool)[None]),
        "part of a batch": all_of(causal(2), window(6, 2)).part(2, 1, m),
    }


@pytest.mark.parametrize("name", masks(1, 1))
@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 7), (5, 19), (19, 5)])
def test_intervals_are_the_masks_rows(name: str, n: int, m: int) -> None:
    mask = masks(n, m)[name]
    seen = intervals(mask, n, m)
    first, last = seen.first, seen.last
    j = np.arange(m)
    cells = (j >= first[:, None]) & (j < last[:, None])
    np.testing.assert_array_equal(cells, dense_mask(mask, n, m, like=np.empty(0)).reshape(n, m))


def test_masks_with_holes_have_no_intervals() -> None:
    assert intervals(given_mask(np.array([[True, True, True], [True, False, True]])), 2, 3) is None
    assert intervals(given_mask(np.ones((2, 2, 2), dtype=bool)), 2, 2) is None  # a mask for each head
    assert intervals(padding(np.array([True, False, True])), 3, 3) is None
    assert intervals(all_of(causal(), padding(np.array([True, False, True]))), 3, 3) is None


def asked(
    key_sets: tuple[np.ndarray, ...] = (),
    vectors: tuple[np.ndarray, ...] = (),
    *,
    column_sums: bool = False,
    top: int = 0,
    pool: Pool | None = None,
    rows: tuple[int, ...] | None = None,
) -> Wanted:
    """All moments of these rows, and more that is asked of the same ones."""
    return Wanted(
        rows,
        (*NOTED_MOMENTS,),
        key_sets,
        vectors,
        tops=(TopK(top),) if top else (),
        column_sums=(ColumnSums(rows),) if column_sums else (),
        pools=() if pool is None else (replace(pool, picked=rows),),
    )


def walked(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule, needs: Wanted, vectors: int | None = None
) -> RowStats:
    """What was noted, with the output."""
    assert suits(*map(torch.tensor, (q, k, v)), rule)
    output = np.empty((*q.shape[:2], v.shape[2]), np.float32)
    numbers = walked_by(q, k, v, rule, needs, output, vectors=vectors)
    assert numbers is not None
    return replace(numbers, output=output)


def ranked(numbers: RowStats) -> RankedKeys:
    (found,) = numbers.tops.values()
    return found


def agree(numbers: RowStats, q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule, needs: Wanted) -> None:
    """Everything that was noted is what float64 says of the dense weights."""
    sink = None if rule.sink is None else np.asarray(rule.sink, dtype=np.float64)
    bias = None if rule.bias is None else np.asarray(rule.bias, dtype=np.float64)
    exact = Rule(rule.scale, rule.softcap, bias, rule.mask, sink)
    whole = dense.attend(*(np.asarray(x, dtype=np.float64) for x in (q, k, v)), exact)
    weights, scores = whole.weights, whole.scores
    live = weights.sum(axis=-1) > 0
    n, m = weights.shape[1:]
    np.testing.assert_allclose(numbers.output, whole.output, **CLOSE)
    picked = list(range(n)) if needs.rows is None else list(needs.rows)
    exponentials = np.exp(np.where(np.isneginf(scores), -np.inf, scores)).sum(axis=-1)
    exponentials += 0 if sink is None else np.exp(sink)[:, None]
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(numbers.logsumexp, np.log(exponentials)[:, picked], **CLOSE)
    weights, scores, live = weights[:, picked], scores[:, picked], live[:, picked]
    with np.errstate(divide="ignore"):
        entropy = -(weights * np.log(weights, out=np.zeros_like(weights), where=weights > 0)).sum(axis=-1)
    np.testing.assert_allclose(numbers.maximum[live], scores.max(axis=-1)[live], **CLOSE)
    np.testing.assert_allclose(numbers.weight_sum, weights.sum(axis=-1), **CLOSE)
    np.testing.assert_allclose(numbers.entropy_nats, entropy, **CLOSE)
    far = np.abs(np.array(picked)[:, None] + (m - n) - np.arange(m))
    np.testing.assert_allclose(numbers.distance, (weights * far).sum(axis=-1), rtol=2e-5, atol=1e-3)
    for number, keys in enumerate(keys[picked] for keys in needs.key_sets):
        sums = np.where(keys >= 0, weights[:, np.arange(len(picked))[:, None], np.maximum(keys, 0)], 0).sum(axis=-1)
        np.testing.assert_allclose(numbers.key_sums[..., number], sums, **CLOSE)
    for number, vector in enumerate(needs.vectors):
        np.testing.assert_allclose(numbers.vector_sums[..., number], weights @ vector, **CLOSE)
    (column_sums,), (pooled,), top = numbers.column_sums.values(), numbers.pooled.values(), ranked(numbers)
    np.testing.assert_allclose(column_sums, weights.sum(axis=1), rtol=2e-5, atol=2e-5 * max(1, n / 50))
    count = min(needs.tops[0].count, m)
    np.testing.assert_allclose(top.weights[..., :count], -np.sort(-weights, axis=-1)[..., :count], **CLOSE)
    named = top.keys >= 0
    by_key = np.take_along_axis(weights, np.maximum(top.keys, 0), axis=-1)
    np.testing.assert_allclose(top.weights[named], by_key[named], **CLOSE)
    their_scores = np.take_along_axis(scores, np.maximum(top.keys, 0), axis=-1)
    np.testing.assert_allclose(top.scores, np.where(named, their_scores, -np.inf), **CLOSE)
    edges = [np.arange(0, size, step) for size, step in ((len(picked), needs.pools[0].rows), (m, needs.pools[0].keys))]
    largest = np.maximum.reduceat(np.maximum.reduceat(weights, edges[0], axis=1), edges[1], axis=2)
    np.testing.assert_allclose(pooled, largest, rtol=2e-5, atol=1e-4)


@built
def test_masks_with_holes_are_left_to_bands() -> None:
    q = np.ones((1, 3, 4), np.float32)
    assert numpy_stats(q, q, q, Rule(1.0, mask=padding(np.array([True, False, True]))), asked()) is None


def key_lists(random: np.random.Generator, n: int, m: int, columns: int) -> np.ndarray:
    """Any keys, as many as each row happens to have, then -1."""
    keys = random.integers(0, m, size=(n, columns))
    return np.where(np.arange(columns) < random.integers(0, columns + 1, size=(n, 1)), keys, -1)


@built
@pytest.mark.parametrize("vectors", VECTORS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_it_is_the_definition(vectors: int, data: st.DataObject) -> None:
    groups = data.draw(st.integers(1, 3))
    h = groups * data.draw(st.integers(1, 3))
    n, m = data.draw(st.integers(1, 220)), data.draw(st.integers(1, 220))
    d, e = data.draw(st.integers(1, 70)), data.draw(st.integers(1, 70))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    every_mask = masks(n, m)
    mask = every_mask[data.draw(st.sampled_from(list(every_mask)))]
    sink = data.draw(st.sampled_from([None, random.normal(size=h).astype(np.float32)]))
    softcap = data.draw(st.sampled_from([None, None, 0.5, 50.0]))
    bias = data.draw(st.sampled_from([None, None, (h, n, m), (1, n, m), (h, 1, m)]))
    bias = None if bias is None else random.normal(size=bias).astype(np.float32)
    rule = Rule(data.draw(st.sampled_from([d**-0.5, 1.0])), softcap, bias, mask, sink)
    q, k, v = (random.normal(size=size).astype(np.float32) for size in ((h, n, d), (groups, m, d), (groups, m, e)))
    pool = Pool(data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30)))
    cells = random.integers(-1, m, size=(n, 3))
    widths = (1, data.draw(st.integers(1, 70)), 9)
    key_sets = (*cells.T[:, :, None], *(key_lists(random, n, m, columns) for columns in widths))
    marks = random.integers(0, 2, size=(2, m)).astype(np.float32)
    top = data.draw(st.integers(1, 20))
    rows = data.draw(st.sampled_from([None, None, (n - 1,), tuple(range(0, n, 3)), tuple(range(n // 2, n))]))
    needs = asked(key_sets, tuple(marks), column_sums=True, top=top, pool=pool, rows=rows)
    agree(walked(q, k, v, rule, needs, vectors), q, k, v, rule, needs)


@built
@pytest.mark.parametrize(
    ("n", "m", "d"), [(1500, 1500, 32), (8, 40_000, 128)], ids=["all threads", "a key head at a time"]
)
def test_large_calls(n: int, m: int, d: int) -> None:
    random = np.random.default_rng(3)
    q, k, v = (random.normal(size=(heads, rows, d)).astype(np.float32) for heads, rows in ((4, n), (2, m), (2, m)))
    rule = Rule(d**-0.5, mask=causal(m - n))
    needs = asked((np.arange(n)[:, None],), column_sums=True, top=4, pool=Pool(7, 50))
    agree(walked(q, k, v, rule, needs), q, k, v, rule, needs)


@built
@pytest.mark.parametrize("vectors", VECTORS)
def test_equal_weights_rank_by_key(vectors: int) -> None:
    q, k = np.zeros((1, 3, 4), np.float32), np.zeros((1, 500, 4), np.float32)
    numbers = walked(q, k, k, Rule(1.0, mask=causal(300)), asked(top=6), vectors)
    assert ranked(numbers).keys.tolist() == [[[0, 1, 2, 3, 4, 5]] * 3]
    few = walked(q, k[:, :4], k[:, :4], Rule(1.0, mask=causal()), asked(top=3), vectors)
    assert ranked(few).keys.tolist() == [[[0, -1, -1], [0, 1, -1], [0, 1, 2]]]


@built
@pytest.mark.parametrize("vectors", VECTORS)
@pytest.mark.parametrize("scale", [1e-6, 30.0, 1000.0])
def test_scores_of_any_size(vectors: int, scale: float) -> None:
    random = np.random.default_rng(1)
    q, k, v = (random.choice([-1.0, 1.0], size=(2, 70, 3)).astype(np.float32) for _ in "qkv")
    rule = Rule(scale, mask=causal())
    numbers = walked(q, k, v, rule, asked(), vectors)
    exact = dense.attend(*(x.astype(np.float64) for x in (q, k, v)), rule)
    np.testing.assert_allclose(numbers.output, exact.output, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(numbers.weight_sum, 1, rtol=1e-5)
    assert (numbers.entropy_nats > -1e-4).all()


@built
@pytest.mark.parametrize("vectors", VECTORS)
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spoils_the_rows_that_it_would_spoil(vectors: int, number: float) -> None:
    random = np.random.default_rng(2)
    q, k, v = (random.normal(size=(1, 90, 8)).astype(np.float32) for _ in "qkv")
    q[0, 40, 0] = number
    rule = Rule(1.0, mask=causal())
    with np.errstate(invalid="ignore"):
        exact = dense.attend(q.astype(np.float64), k.astype(np.float64), v.astype(np.float64), rule)
    output = walked(q, k, v, rule, asked(), vectors).output
    np.testing.assert_array_equal(np.isnan(output), np.isnan(exact.output))
    np.testing.assert_allclose(output, exact.output, **CLOSE)
    v[0, 80, 0] = number  # a masked value must not matter, and times a weight of 0 it would
    assert walked_by(q, k, v, rule, Wanted(), None, vectors=vectors) is None


@built
@pytest.mark.parametrize("vectors", VECTORS)
@pytest.mark.parametrize("size", [1e-4, 0.1, 3.0, 300.0])
def test_softcaps_keep_all_digits(vectors: int, size: float) -> None:
    x = np.linspace(-size, size, 301, dtype=np.float32).reshape(1, -1, 1)
    one = np.ones((1, 1, 1), np.float32)
    numbers = walked(x, one, one, Rule(1.0, softcap=2.0), asked(top=1), vectors)
    capped = 2.0 * np.tanh(x[0, :, 0].astype(np.float64) / 2.0)
    np.testing.assert_allclose(numbers.maximum[0], capped, rtol=4e-7)
    np.testing.assert_allclose(ranked(numbers).scores[0, :, 0], capped, rtol=4e-7)


@built
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_raised_before_anything_is_multiplied(dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(2, 40, 16, generator=random).to(dtype) for _ in "qkv")
    there, needs = torch.zeros(2, 40, 16, dtype=dtype), asked(column_sums=True)
    numbers = compiled_stats(q, k, v, Rule(0.25, mask=causal()), needs, there)
    exact = dense.attend(*(x.double().numpy() for x in (q, k, v)), Rule(0.25, mask=causal()))
    np.testing.assert_allclose(*numbers.column_sums.values(), exact.weights.sum(axis=1), **CLOSE)
    torch.testing.assert_close(there, torch.tensor(exact.output).to(dtype), rtol=1e-2, atol=1e-2)
    assert float((there == torch.tensor(exact.output).to(dtype)).float().mean()) > 0.99  # but for ties of rounding


@built
def test_a_bias_is_read_where_it_lies() -> None:
    random = torch.Generator().manual_seed(4)
    q, k, v = (torch.randn(4, 30, 8, generator=random) for _ in "qkv")
    shared = torch.randn(1, 1, 30, generator=random).expand(4, 30, 30)
    turned = torch.randn(4, 30, 30, generator=random).mT
    for bias in (shared, turned, torch.randn(30, 4, 30, generator=random).transpose(0, 1)):
        there = torch.zeros(4, 30, 8)
        compiled_stats(q, k, v, Rule(0.5, bias=bias, mask=causal()), Wanted(), there)
        mask = bias.masked_fill(~torch.ones(30, 30, dtype=torch.bool).tril(), -torch.inf)
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.5)
        torch.testing.assert_close(there, expected, rtol=1e-5, atol=1e-5)


@built
def test_it_writes_where_a_model_reads_and_takes_arrays_with_gaps() -> None:
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 50, 4, 16, generator=random)[0].transpose(0, 1) for _ in "qkv")  # [h, n, d], gaps in rows
    there = torch.zeros(50, 4, 16)
    compiled_stats(q, k, v, Rule(0.25, mask=causal()), Wanted(), there.transpose(0, 1))
    expected = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    torch.testing.assert_close(there.transpose(0, 1), expected, rtol=1e-5, atol=1e-5)
    across = [x.mT.contiguous().mT for x in (q, k, v)]
    there.zero_()
    compiled_stats(*across, Rule(0.25, mask=causal()), Wanted(), there.transpose(0, 1))
    torch.testing.assert_close(there.transpose(0, 1), expected, rtol=1e-5, atol=1e-5)


def test_what_it_does_not_suit() -> None:
    x = torch.ones(1, 4, 2)
    assert suits(x, x, x, Rule(1.0)) == is_built()
    assert not suits(x.double(), x, x, Rule(1.0))
    assert suits(x.bfloat16(), x.half(), x, Rule(1.0)) == is_built()
    assert not suits(x.numpy(), x.numpy(), x.numpy(), Rule(1.0))
    assert not suits(x, x, x, Rule(1.0, bias=torch.ones(1, 4, 4).double()))
    assert not suits(x, x, x, Rule(1.0, bias=torch.ones(1, 4, 1)))
    assert not suits(x, x, x, Rule(1.0, bias=Alibi(torch.ones(1))))
    assert not suits(x, x, x, Rule(1.0, softmax=False))
    assert not suits(x[:, :0], x, x, Rule(1.0))


def test_it_is_built_where_a_compiler_is_at_hand() -> None:
    compiler = shutil.which(os.environ.get("CC", "gcc")) or shutil.which("cc")
    assert is_built() or compiler is None, "the package was installed without its compiled code: install it again"


@built
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own() -> None:
    x = np.ones((2, 1200, 16), np.float32)
    arguments = (x, x, x, Rule(1.0, mask=causal()), Wanted(), np.empty_like(x))
    walked_by(*arguments)  # with threads, for it is large
    child = multiprocessing.get_context("fork").Process(target=walked_by, args=arguments)
    child.start()
    child.join(30)
    assert child.exitcode == 0
