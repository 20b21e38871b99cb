"""The compiled walk and bands are the definition: outputs and all statistics of rows, for every width of vectors."""

import multiprocessing
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.bands.threads import available_cores
from attn_cli.kernel.cpu.library import is_built, widest_vectors
from attn_cli.kernel.cpu.walk import NOTED_MOMENTS, compiled_stats, suits
from attn_cli.kernel.cpu.walk import walked as walked_by
from attn_cli.kernel.definition import dense
from attn_cli.kernel.definition.mask import Mask, all_of, causal, given_mask, padding, prefix, window
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats import of_bands
from attn_cli.kernel.stats.of_bands import stats_of_bands
from attn_cli.kernel.stats.topk import heaviest
from attn_cli.kernel.stats.wanted import ColumnSums, Pool, RankedKeys, Rows, RowStats, TopK, Wanted
from attn_cli.prompt import Token
from tests.strategies import Problem, as_tensors, problems

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


def asked(
    key_sets: tuple[np.ndarray, ...] = (),
    vectors: tuple[np.ndarray, ...] = (),
    *,
    column_sums: bool = False,
    top: int = 0,
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


def agree(numbers: RowStats, q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule) -> None:
    """The output and everything that was noted are what float64 says of the dense weights."""
    wide = None if rule.sink is None else np.asarray(rule.sink, np.float64)
    problem = Problem(*(x.astype(np.float64) for x in (q, k, v)), replace(rule, sink=wide))
    assert_are_the_definitions(numbers, call_of(problem), {"rtol": 2e-5, "atol": 1e-4})
    np.testing.assert_allclose(
        numbers.output, dense.attend(problem.q, problem.k, problem.v, problem.rule).output, **CLOSE
    )


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
    rule = Rule(data.draw(st.sampled_from([d**-0.5, 1.0])), mask=mask, sink=sink)
    q, k, v = (random.normal(size=size).astype(np.float32) for size in ((h, n, d), (groups, m, d), (groups, m, e)))
    cells = random.integers(-1, m, size=(n, 3))
    widths = (1, data.draw(st.integers(1, 70)), 9)
    key_sets = (*cells.T[:, :, None], *(key_lists(random, n, m, columns) for columns in widths))
    marks = random.integers(0, 2, size=(2, m)).astype(np.float32)
    top = data.draw(st.integers(1, 20))
    rows = data.draw(st.sampled_from([None, None, (n - 1,), tuple(range(0, n, 3)), tuple(range(n // 2, n))]))
    needs = asked(key_sets, tuple(marks), column_sums=True, top=top, rows=rows)
    agree(walked(q, k, v, rule, needs, vectors), q, k, v, rule)


@built
@pytest.mark.parametrize(
    ("n", "m", "d"), [(1500, 1500, 32), (8, 40_000, 128)], ids=["all threads", "a key head at a time"]
)
def test_large_calls(n: int, m: int, d: int) -> None:
    random = np.random.default_rng(3)
    q, k, v = (random.normal(size=(heads, rows, d)).astype(np.float32) for heads, rows in ((4, n), (2, m), (2, m)))
    rule = Rule(d**-0.5, mask=causal(m - n))
    needs = asked((np.arange(n)[:, None],), column_sums=True, top=4)
    agree(walked(q, k, v, rule, needs), q, k, v, rule)


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
def test_what_is_not_finite_is_left_to_bands(vectors: int, number: float) -> None:
    random = np.random.default_rng(2)
    q, k, v = (random.normal(size=(1, 90, 8)).astype(np.float32) for _ in "qkv")
    spoiled = [x.copy() for x in (q, k, v)]
    for x in spoiled:
        x[0, 40, 0] = number  # a masked value must not matter, and times a weight of 0 it would
    rule = Rule(1.0, mask=causal())
    assert walked_by(q, k, v, rule, asked(), None, vectors=vectors) is not None
    for inputs in ((spoiled[0], k, v), (q, spoiled[1], v), (q, k, spoiled[2])):
        assert walked_by(*inputs, rule, asked(), None, vectors=vectors) is None


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
    assert suits(x.numpy(), x.numpy(), x.numpy(), Rule(1.0)) == is_built()
    assert not suits(x, x, x, Rule(1.0, bias=torch.ones(1, 4, 4)))
    assert not suits(x, x, x, Rule(1.0, softcap=2.0))
    assert not suits(x, x, x, Rule(1.0, softmax=False))
    assert not suits(x[:, :0], x, x, Rule(1.0))
    assert compiled_stats(x, x, x, Rule(1.0, mask=padding(np.array([True, False, True, True]))), asked()) is None


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


DOUBLE, SINGLE = {"rtol": 1e-9, "atol": 1e-9}, {"rtol": 3e-5, "atol": 3e-5}


def call_of(problem: Problem, *, single: bool = False) -> AttentionCall:
    (h, n, _), m = problem.q.shape, problem.k.shape[1]
    place = Place(0, "toy", tuple(range(h)), (0,) * h)
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    if single:
        q, k, v = (torch.tensor(x, dtype=torch.float32) for x in (q, k, v))
        rule = as_tensors(rule, lambda x: torch.tensor(x).float() if x.dtype == np.float64 else torch.tensor(x))
    tokens = [tuple(Token(i, str(i)) for i in range(count)) for count in (n, m)]
    return AttentionCall(q, k, v, rule, place, *tokens)


MOMENTS_ASKED = [(), ("masked", *NOTED_MOMENTS), ("masked", "distance"), ("weight_sum", "entropy_nats")]


@st.composite
def wanteds(draw: st.DrawFn, n: int, m: int) -> Wanted:
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def rows() -> Rows:
        return draw(st.sampled_from([None, None, (n - 1,), tuple(range(0, n, 3))]))

    def keys(columns: int) -> np.ndarray:
        named = random.integers(0, m, size=(n, columns))
        return np.where(np.arange(columns) < random.integers(0, columns + 1, size=(n, 1)), named, -1)

    sizes = st.integers(1, 9)
    return Wanted(
        rows=rows(),
        moments=draw(st.sampled_from(MOMENTS_ASKED)),
        key_sets=tuple(keys(columns) for columns in draw(st.sampled_from([(), (1, 1), (1, 5)]))),
        vectors=tuple(random.integers(0, 2, size=(draw(st.integers(0, 2)), m)).astype(np.float32)),
        tops=draw(st.sampled_from([(), (TopK(1),), (TopK(3), TopK(5), TopK(2, mean_heads=True))])),
        output=draw(st.booleans()),
        column_sums=draw(st.sampled_from([(), (ColumnSums(),), (ColumnSums(rows()), ColumnSums((0,)))])),
        pools=draw(st.sampled_from([
            (), (Pool(draw(sizes), draw(sizes)),),
            (Pool(3, 4, picked=rows()), Pool(2, 9, mean_heads=True, picked=rows()),
             Pool(2, 2, of="scores"), Pool(1, 1),
             Pool(2, 2, columns=tuple(range(0, m, 2)))),
        ])),
    )  # fmt: skip


def assert_are_the_definitions(stats: RowStats, call: AttentionCall, close: dict[str, float]) -> None:
    """Everything that was wanted is what the dense weights say."""
    wanted, (n, m) = stats.wanted, (call.n, call.m)
    whole = dense.attend(*(np.asarray(x, dtype=np.float64) for x in (call.q, call.k, call.v)), call.rule)
    picked = np.arange(n) if wanted.rows is None else np.array(wanted.rows)
    weights, scores = whole.weights[:, picked], whole.scores[:, picked]
    with np.errstate(divide="ignore"):
        sums = np.exp(scores).sum(axis=-1)
        sums += 0 if call.rule.sink is None else np.exp(call.rule.sink)[:, None]
        logsumexp = np.log(sums)
    far = np.abs(picked[:, None] + (m - n) - np.arange(m))
    moments = {
        "masked": np.isneginf(scores).all(axis=-1),
        "maximum": scores.max(axis=-1),
        "logsumexp": logsumexp,
        "weight_sum": weights.sum(axis=-1),
        "entropy_nats": -(weights * np.log(weights, out=np.zeros_like(weights), where=weights > 0)).sum(axis=-1),
        "distance": (weights * far).sum(axis=-1),
    }
    for name in wanted.moments:
        np.testing.assert_allclose(getattr(stats, name), moments[name], err_msg=name, **close)
    if wanted.output:
        np.testing.assert_allclose(stats.output, whole.output[:, picked], **close)
    for keys in wanted.key_sets:
        sums = np.where(keys[picked] >= 0, np.take_along_axis(weights, np.maximum(keys[picked], 0)[None], -1), 0)
        np.testing.assert_allclose(stats.on_keys(keys), sums.sum(axis=-1), **close)
    for at, vector in enumerate(wanted.vectors):
        np.testing.assert_allclose(stats.vector_sums[..., at], weights @ vector, **close)
    for top, ranked in stats.tops.items():
        of = weights.mean(axis=0, keepdims=True) if top.mean_heads else weights
        count = min(top.count, m)
        np.testing.assert_allclose(ranked.weights, -np.sort(-of, axis=-1)[..., :count], **close)
        by_key = np.take_along_axis(of, np.maximum(ranked.keys, 0), axis=-1)
        np.testing.assert_allclose(ranked.weights, np.where(ranked.keys >= 0, by_key, 0), **close)
        theirs = scores.mean(axis=0, keepdims=True) if top.mean_heads else scores
        theirs = np.take_along_axis(theirs, np.maximum(ranked.keys, 0), axis=-1)
        np.testing.assert_allclose(ranked.scores, np.where(ranked.keys >= 0, theirs, -np.inf), **close)
    for columns, sums in stats.column_sums.items():
        rows = slice(None) if columns.rows is None else list(columns.rows)
        np.testing.assert_allclose(sums, whole.weights[:, rows].sum(axis=1), **close)
    for pool, blocks in stats.pooled.items():
        cells = whole.scores if pool.of == "scores" else whole.weights
        cells = cells[:, slice(None) if pool.picked is None else list(pool.picked)]
        cells = cells.mean(axis=0, keepdims=True) if pool.mean_heads else cells
        cells = cells if pool.columns is None else cells[..., list(pool.columns)]
        np.testing.assert_allclose(blocks, in_blocks(cells, pool), **close)


def in_blocks(cells: np.ndarray, pool: Pool) -> np.ndarray:
    for axis, step in ((1, pool.rows), (2, pool.keys)):
        cells = np.maximum.reduceat(cells, range(0, cells.shape[axis], step), axis=axis)
    return cells


@settings(max_examples=150, deadline=None)
@given(problem=problems(), data=st.data())
def test_bands_say_what_the_definition_says(problem: Problem, data: st.DataObject) -> None:
    call = call_of(problem)
    wanted, cores = data.draw(wanteds(call.n, call.m)), data.draw(st.integers(1, 3))
    with mock.patch.multiple(of_bands, _THREADED=0, cores=lambda: cores):
        assert_are_the_definitions(stats_of_bands(call, wanted), call, DOUBLE)


@pytest.mark.skipif(not is_built(), reason="no C compiler was at hand when the package was installed")
@settings(max_examples=100, deadline=None)
@given(problem=problems(), data=st.data())
def test_compiled_code_says_the_same(problem: Problem, data: st.DataObject) -> None:
    exact, call = call_of(problem), call_of(problem, single=True)
    wanted = data.draw(wanteds(call.n, call.m))
    stats = call.compiled_stats(replace(wanted, pools=()))
    if stats is not None:
        assert_are_the_definitions(stats, exact, SINGLE)
    assert_are_the_definitions(call.row_stats(wanted), exact, SINGLE)


@dataclass(frozen=True, eq=False)
class _More(Wanted):
    """A request with a field that only bands know."""

    squares: bool = False


@pytest.mark.skipif(not is_built(), reason="no C compiler was at hand when the package was installed")
def test_a_wish_that_compiled_code_does_not_know_is_left_to_bands() -> None:
    call = call_of(Problem(*np.random.default_rng(0).normal(size=(3, 2, 5, 4)), Rule(1.0)), single=True)
    known = ("masked", *NOTED_MOMENTS)
    assert call.compiled_stats(_More(moments=known)) is not None
    assert call.compiled_stats(_More(moments=known, squares=True)) is None
    assert call.compiled_stats(Wanted(moments=(*known, "gini"))) is None
    assert _More(squares=True).notes_rows and not _More(column_sums=(ColumnSums(),)).notes_rows


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_two_wishes_at_once_are_both_met(data: st.DataObject) -> None:
    problem = data.draw(problems())
    call = call_of(problem)
    some, more = (data.draw(wanteds(call.n, call.m)) for _ in range(2))
    both = stats_of_bands(call, some | more)
    for wanted in (some, more):
        alone = stats_of_bands(call, wanted)
        for name in wanted.moments:
            np.testing.assert_allclose(both.of_rows(getattr(both, name), wanted.rows), getattr(alone, name), **DOUBLE)
        for keys in wanted.key_sets:
            np.testing.assert_allclose(both.of_rows(both.on_keys(keys), wanted.rows), alone.on_keys(keys), **DOUBLE)
        for top in wanted.tops:
            np.testing.assert_allclose(
                both.of_rows(both.tops[top].weights, wanted.rows), alone.tops[top].weights, **DOUBLE
            )
        for columns in wanted.column_sums:
            np.testing.assert_allclose(both.column_sums[columns], alone.column_sums[columns], **DOUBLE)
        for pool in wanted.pools:
            np.testing.assert_allclose(both.pooled[pool], alone.pooled[pool], **DOUBLE)


LENGTHS = (1, 2, 5, 16, 64, 65, 81, 255, 256, 1000, 2050)


def kinds(random: np.random.Generator, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Rows with hardly a tie, with many, with nothing else, and with zeros of both signs."""
    x = random.normal(size=shape)
    return {
        "few ties": x,
        "many ties": np.round(x),
        "nothing but ties": np.zeros(shape),
        "mostly zeros": np.maximum(x, 0) * random.integers(0, 2, shape),
        "negative": -np.abs(np.round(x, 1)),
    }


@pytest.mark.parametrize("count", [1, 2, 5, 17, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_heaviest_are_what_a_stable_sort_puts_first(count: int, dtype: type) -> None:
    random = np.random.default_rng(0)
    for length in (c for c in LENGTHS if c >= count):
        for kind, rows in kinds(random, (2, 3, length)).items():
            rows = rows.astype(dtype)
            expected = np.argsort(-rows, axis=-1, kind="stable")[..., :count]
            values, positions = heaviest(rows, count)
            np.testing.assert_array_equal(positions, expected, err_msg=f"{kind}, {length} entries")
            np.testing.assert_array_equal(values, np.take_along_axis(rows, expected, axis=-1))


@pytest.mark.parametrize("length", [50, 300])
def test_rows_with_nan_leave_the_others_right(length: int) -> None:
    rows = np.random.default_rng(1).normal(size=(4, length)).astype(np.float32)
    rows[1], rows[2, :3] = np.nan, np.nan
    _, positions = heaviest(rows, 5)
    expected = np.argsort(-rows, axis=-1, kind="stable")[:, :5]
    np.testing.assert_array_equal(positions[[0, 3]], expected[[0, 3]])
    assert ((positions >= 0) & (positions < length)).all()


def test_a_slice_of_a_larger_array_is_read_where_it_is() -> None:
    whole = np.random.default_rng(2).normal(size=(2, 9, 500)).astype(np.float32)
    part = whole[:, 2:6, 30:430]
    expected = np.argsort(-part, axis=-1, kind="stable")[..., :5]
    for rows in (part, torch.from_numpy(whole)[:, 2:6, 30:430]):
        np.testing.assert_array_equal(np.asarray(heaviest(rows, 5)[1]), expected)
