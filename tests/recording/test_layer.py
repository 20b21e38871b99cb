"""A recorded layer, and recordings of anybody's arrays: the weights and numbers of the definition."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.errors import InputError
from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.mask import all_of, causal, window
from attn_cli.kernel.definition.mask import dense as dense_mask
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import Heads, HeadStatistics
from attn_cli.summaries.reducers.keys import Received, ReceivedShares
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from attn_cli.summaries.reducers.record import recorded
from tests.program import attn, strict_json
from tests.strategies import Problem, as_tensors, problems


def tokens(count: int) -> tuple[Token, ...]:
    return tuple(Token(at, str(at)) for at in range(count))


def call_of(problem: Problem, *, torches: bool = False) -> AttentionCall:
    """The problem as a call of all its heads; with `torches` in float32 tensors, which the compiled walk takes."""
    h, n, _ = problem.q.shape
    g, m, _ = problem.k.shape
    q, k, v, rule = problem.q, problem.k, problem.v, problem.rule
    if torches:
        q, k, v = (torch.tensor(x, dtype=torch.float32) for x in (q, k, v))
        rule = as_tensors(rule, lambda x: torch.tensor(x, dtype=torch.bool if x.dtype == bool else torch.float32))
    heads, groups = tuple(range(h)), tuple(head // (h // g) for head in range(h))
    return AttentionCall(q, k, v, rule, Place(0, "test", heads, groups), tokens(n), tokens(m))


def places(count: int) -> st.SearchStrategy[slice | np.ndarray]:
    """Some of so many rows or keys: a run of them, or picked ones."""
    run = st.tuples(st.integers(0, count), st.integers(0, count)).map(lambda ends: slice(min(ends), max(ends)))
    picked = st.sets(st.integers(0, count - 1), min_size=1).map(lambda some: np.array(sorted(some)))
    return run | picked


@settings(max_examples=30)
@given(problems(raw=True), st.booleans(), st.data())
def test_cells_are_those_of_the_definition(problem: Problem, torches: bool, data: st.DataObject) -> None:
    call = call_of(problem, torches=torches)
    layer, expected = recorded(call), attend(problem.q, problem.k, problem.v, problem.rule)
    tolerance = 2e-5 if torches else 1e-6  # log sums are kept in float32
    rows, keys = (data.draw(places(count)) for count in (call.n, call.m))
    for head in range(call.h):
        scores, weights = (x[head][rows][:, keys] for x in (expected.scores, expected.weights))
        np.testing.assert_allclose(layer.scores(head, rows, keys), scores, atol=tolerance)
        np.testing.assert_allclose(layer.weights(head, rows, keys), weights, atol=tolerance)
    allowed = dense_mask(problem.rule.mask, call.n, call.m, like=problem.q)
    allowed = allowed.any(0) if allowed.ndim == 3 else allowed
    assert np.array_equal(layer.allowed(rows, keys), np.broadcast_to(allowed, (call.n, call.m))[rows][:, keys])


@settings(max_examples=30)
@given(problems(), st.integers(1, 9), st.integers(1, 9), st.data())
def test_pooled_blocks_are_maxima_of_weights(problem: Problem, a: int, b: int, data: st.DataObject) -> None:
    call = call_of(problem)
    layer, expected = recorded(call), attend(problem.q, problem.k, problem.v, problem.rule)
    rows, keys = (data.draw(places(count)) for count in (call.n, call.m))
    for head in range(call.h):
        masked = np.isneginf(expected.scores[head][rows][:, keys])
        blocks = block_loop(np.where(masked, np.nan, expected.weights[head][rows][:, keys]), a, b)
        np.testing.assert_allclose(layer.pooled(head, rows, keys, (a, b)), blocks, atol=1e-6)


def block_loop(cells: np.ndarray, a: int, b: int) -> np.ndarray:
    """Maxima of blocks, one by one; NaN where there is nothing but NaN."""
    n, m = cells.shape
    blocks = np.full((-(-n // a), -(-m // b)), np.nan)
    for i in range(blocks.shape[0]):
        for j in range(blocks.shape[1]):
            block = cells[i * a : (i + 1) * a, j * b : (j + 1) * b]
            numbers = block[~np.isnan(block)].tolist()
            blocks[i, j] = max(numbers) if numbers else np.nan
    return blocks


@settings(max_examples=30)
@given(problems(), st.data())
def test_terms_add_up_to_the_score_and_the_weight(problem: Problem, data: st.DataObject) -> None:
    call = call_of(problem)
    layer, expected = recorded(call), attend(problem.q, problem.k, problem.v, problem.rule)
    head, i, j = (data.draw(st.integers(0, count - 1)) for count in (call.h, call.n, call.m))
    terms = layer.terms(head, i, j)
    total = terms.scale * terms.products.sum()
    total = total if terms.softcap is None else terms.softcap * np.tanh(total / terms.softcap)
    total += terms.bias or 0.0
    row = expected.scores[head, i]
    if np.isneginf(row[j]):
        assert (terms.score, terms.weight, terms.rank) == (-np.inf, 0.0, None)
        return
    assert terms.score == pytest.approx(row[j]) == pytest.approx(total)
    assert terms.weight == pytest.approx(np.exp(total - terms.log_sum), abs=1e-6)
    assert terms.rank == 1 + sum(row > row[j])


@settings(max_examples=30)
@given(problems(), st.booleans())
def test_every_reducer_runs_on_it(problem: Problem, torches: bool) -> None:
    call = call_of(problem, torches=torches)
    layer = recorded(call)
    parts = (MatrixOf(kinds=("weights", "scores")), HeadStatistics(), ReceivedShares())
    live, again = reduce(call, *parts), reduce(layer, *parts)
    for kind in (Matrix, Heads, Received):
        for name, values in live.part(kind).arrays().items():
            np.testing.assert_allclose(again.part(kind).arrays()[name], values, atol=2e-5, err_msg=name)
    assert again.rule | {"mask": ""} == live.rule | {"mask": ""}
    for name, values in live.part(Heads).statistics.items():
        np.testing.assert_allclose(layer.statistics[name], values, atol=2e-5, err_msg=name)


def test_bfloat16_is_kept_as_it_is() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 7, 8, dtype=torch.bfloat16)
    call = call_of(Problem(np.zeros((2, 7, 8)), np.zeros((2, 7, 8)), np.zeros((2, 7, 8)), None))
    call = AttentionCall(x, x, x, Rule(0.3), call.place, call.queries, call.keys)
    layer: RecordedLayer = recorded(call)
    assert layer.q.dtype == np.uint16
    expected = attend(x.float(), x.float(), x.float(), Rule(0.3))
    np.testing.assert_allclose(layer.scores(1, slice(2, 5), slice(0, 7)), expected.scores[1, 2:5], atol=1e-6)
    np.testing.assert_allclose(layer.weights(1, slice(2, 5), slice(0, 7)), expected.weights[1, 2:5], atol=1e-6)


RANDOM = np.random.default_rng(0)
WORDS = ["the", "cat", "sat", "on", "the", "mat"]


def arrays(layers: int = 2, h: int = 4, g: int = 2, n: int = 6, m: int = 6, d: int = 8) -> list[tuple[np.ndarray, ...]]:
    return [
        tuple(RANDOM.normal(size=size).astype(np.float32) for size in ((h, n, d), (g, m, d), (g, m, d)))
        for _ in range(layers)
    ]


def weights(recording: Recording, layer: int) -> np.ndarray:
    kept = recording.layers[layer]
    return np.stack([kept.weights(head, slice(0, kept.n), slice(0, kept.m)) for head in range(kept.h)])


@pytest.mark.parametrize("n", [6, 2])
def test_weights_and_statistics_are_those_of_the_definition(n: int, tmp_path: Path) -> None:
    layers = arrays(n=n)
    q, k, v = ([layer[at] for layer in layers] for at in range(3))
    Recording.of(q, k, v, tokens=WORDS, model="my engine").save(tmp_path / "x.attn")
    read = Recording.load(tmp_path / "x.attn")
    assert [token.text for token in read.layers[0].queries] == WORDS[6 - n :]
    for number, of_layer in enumerate(layers):
        expected = attend(*of_layer, Rule(8**-0.5, mask=causal(6 - n))).weights
        np.testing.assert_allclose(weights(read, number), expected, atol=1e-6)
        np.testing.assert_allclose(read.layers[number].value_norms, np.linalg.norm(of_layer[2], axis=-1), rtol=1e-6)
    heads = strict_json(attn("heads", "-m", tmp_path / "x.attn", "--json").text)
    assert heads["about"]["model"] == "my engine"
    first = attend(*layers[0], Rule(8**-0.5, mask=causal(6 - n))).weights[0]
    entropy = -(first * np.log2(np.where(first > 0, first, 1))).sum(-1).mean()
    assert heads["tables"]["heads"][0]["entropy_bits"] == pytest.approx(entropy, rel=1e-5)


def test_a_rule_of_each_layer() -> None:
    layers = arrays()
    rules = [Rule(0.3, softcap=2.0), Rule(0.1, mask=all_of(causal(), window(2)))]
    recording = Recording.of(*([layer[at] for layer in layers] for at in range(2)), rule=rules.__getitem__)
    for number, (q, k, v) in enumerate(layers):
        np.testing.assert_allclose(weights(recording, number), attend(q, k, v, rules[number]).weights, atol=1e-6)


Q, K, V = arrays(1)[0]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"q": [Q, Q], "k": [K]}, r"q and k are not of the same layers: q of \[0, 1\], k of \[0\]"),
        ({"q": [], "k": []}, "q and k are not of the same layers"),
        ({"q": [Q[0]], "k": K}, r"layer 0: q is \[6, 8\] of float32"),
        ({"q": [Q.astype(int)], "k": K}, r"layer 0: q is \[4, 6, 8\] of int64"),
        ({"q": Q, "k": K[:, :3]}, r"layer 0: q \[4, 6, 8\], k \[2, 3, 8\] are not of one attention"),
        ({"q": Q[:3], "k": K}, r"layer 0: q \[3, 6, 8\], k \[2, 6, 8\] are not of one attention"),
        ({"q": Q, "k": K, "v": V[:, :2]}, r"v \[2, 2, 8\] are not of one attention"),
        ({"q": Q, "k": K, "tokens": WORDS[:5]}, "5 tokens for 6 keys of layer 0"),
        ({"q": [Q, Q[:, :2]], "k": [K, K[:, :2]]}, "6 tokens for 2 keys of layer 1"),
    ],
)
def test_arrays_that_are_not_of_one_text(given: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        Recording.of(**given)
