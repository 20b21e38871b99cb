"""Row statistics read off bands are the definition's, and those of compiled code are the same."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.cpu.library import is_built
from attn_cli.kernel.cpu.walk import NOTED_MOMENTS
from attn_cli.kernel.definition import dense
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.of_bands import stats_of_bands
from attn_cli.kernel.stats.wanted import MOMENTS, ColumnSums, Pool, Rows, RowStats, TopK, Wanted
from attn_cli.prompt import Token
from tests.strategies import Problem, as_tensors, problems

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
SINGLE = {"rtol": 3e-5, "atol": 3e-5}


def call_of(problem: Problem, *, single: bool = False) -> AttentionCall:
    (h, n, _), m = problem.q.shape, problem.k.shape[1]
    place = Place(0, "toy", tuple(range(h)), (0,) * h)
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    if single:
        q, k, v = (torch.tensor(x, dtype=torch.float32) for x in (q, k, v))
        rule = as_tensors(rule, lambda x: torch.tensor(x).float() if x.dtype == np.float64 else torch.tensor(x))
    tokens = [tuple(Token(i, str(i)) for i in range(count)) for count in (n, m)]
    return AttentionCall(q, k, v, rule, place, *tokens)


MOMENTS_ASKED = [(), MOMENTS, ("masked", *NOTED_MOMENTS), ("masked", "distance"), ("weight_sum", "entropy_nats")]


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
    wanted = data.draw(wanteds(call.n, call.m))
    assert_are_the_definitions(stats_of_bands(call, wanted), call, CLOSE)


@pytest.mark.skipif(not is_built(), reason="no C compiler was at hand when the package was installed")
@settings(max_examples=100, deadline=None)
@given(problem=problems(), data=st.data())
def test_compiled_code_says_the_same(problem: Problem, data: st.DataObject) -> None:
    exact, call = call_of(problem), call_of(problem, single=True)
    wanted = data.draw(wanteds(call.n, call.m))
    wanted = replace(wanted, pools=tuple(x for x in wanted.pools if x.of == "weights"))
    stats = call.compiled_stats(wanted)
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
            np.testing.assert_allclose(both.of_rows(getattr(both, name), wanted.rows), getattr(alone, name), **CLOSE)
        for keys in wanted.key_sets:
            np.testing.assert_allclose(both.of_rows(both.on_keys(keys), wanted.rows), alone.on_keys(keys), **CLOSE)
        for top in wanted.tops:
            np.testing.assert_allclose(
                both.of_rows(both.tops[top].weights, wanted.rows), alone.tops[top].weights, **CLOSE
            )
        for columns in wanted.column_sums:
            np.testing.assert_allclose(both.column_sums[columns], alone.column_sums[columns], **CLOSE)
        for pool in wanted.pools:
            np.testing.assert_allclose(both.pooled[pool], alone.pooled[pool], **CLOSE)
