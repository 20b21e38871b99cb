"""Every statistic against plain NumPy on dense weights; what holds for all of them; columns that say nothing."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.kernel.definition.mask import Mask, causal, given_mask, window
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.summaries.calls.in_words import InWords
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.heads import RULES, STATISTICS, Heads, HeadStatistics
from tests.strategies import Problem, problems
from tests.summaries.test_laws import CLOSE, attended, call_of

NAMES = [statistic.name for statistic in STATISTICS]


@dataclass
class Row:
    """The weights `[m]` of one query, the key that it stands at, and what the learned sink takes."""

    weights: np.ndarray
    query: int
    sink: float

    def at(self, key: int) -> float:
        return float(self.weights[key]) if 0 <= key < len(self.weights) else np.nan


def mean_over_rows(problem: Problem, of_row: Callable[[Row], float]) -> np.ndarray:
    """The mean `[h]` of a number over the rows that may attend to anything and have it, NaN without such a row."""
    weights = attended(problem).weights
    _, n, m = weights.shape
    has_sink = problem.rule.sink is not None
    means = []
    for head in weights:
        rows = [Row(row, i + m - n, 1 - row.sum() if has_sink else 0.0) for i, row in enumerate(head) if row.sum() > 0]
        found = [x for x in map(of_row, rows) if not np.isnan(x)]
        means.append(np.mean(found) if found else np.nan)
    return np.array(means)


def heads_of(problem: Problem, *, tensors: bool, stream: str = "self") -> Heads:
    call = call_of(problem, tensors=tensors)
    heads = reduce(replace(call, place=replace(call.place, stream=stream)), HeadStatistics()).part(Heads)
    assert heads is not None
    return heads


def entropy(row: Row) -> float:
    """The sink counts as a key."""
    return -sum(p * np.log2(p) for p in (*row.weights, row.sink) if p > 0)


def distance(row: Row) -> float:
    return sum(p * abs(row.query - key) for key, p in enumerate(row.weights))


OF_ROW: dict[str, Callable[[Row], float]] = {
    "entropy_bits": entropy,
    "distance": distance,
    "first_weight": lambda row: row.at(0),
    "previous_weight": lambda row: row.at(row.query - 1),
    "self_weight": lambda row: row.at(row.query),
    "sink_weight": lambda row: row.sink,
    "next_weight": lambda row: row.at(row.query + 1),
    "ruled": lambda row: float(row.weights.max() >= RULES),
}
OF_TWO_SIDES = ("distance", "previous_weight", "self_weight", "next_weight")  # of queries that are keys, too


def test_each_statistic_is_held_against_numpy() -> None:
    assert {*OF_ROW, "induction_weight", "max_score"} == set(NAMES)


@given(problem=problems(), tensors=st.booleans())
def test_each_is_the_mean_over_rows(problem: Problem, tensors: bool) -> None:
    statistics = heads_of(problem, tensors=tensors).statistics
    for name, of_row in OF_ROW.items():
        if name in OF_TWO_SIDES and problem.q.shape[1] > problem.k.shape[1]:
            continue  # a self-attention never has more queries than keys
        expected = mean_over_rows(problem, of_row)
        if name == "next_weight" and not np.nan_to_num(expected).any():
            expected = np.full_like(expected, np.nan)
        elif name not in ("previous_weight", "next_weight"):
            expected = np.nan_to_num(expected)  # 0 where none may attend
        np.testing.assert_allclose(statistics[name], expected, **CLOSE, err_msg=name)


@pytest.mark.parametrize("name", OF_TWO_SIDES)
def test_cross_attention_has_none_whose_queries_are_keys(name: str) -> None:
    problem = Problem(*np.ones((3, 2, 4, 3)), Rule(1.0))
    assert np.isnan(heads_of(problem, tensors=False, stream="cross").statistics[name]).all()


@pytest.mark.parametrize("mask", [causal(), given_mask(np.tri(5, dtype=bool)), window(1, both_sides=True)], ids=str)
def test_a_mask_that_hides_what_follows_leaves_no_next_weight(mask: Mask) -> None:
    problem = Problem(*np.random.default_rng(1).normal(size=(3, 2, 5, 4)), Rule(1.0, mask=mask))
    assert np.isnan(heads_of(problem, tensors=False).next_weight).all()


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_induction_is_the_weight_on_what_followed_the_same_token_before(tensors: bool, is_causal: bool) -> None:
    """By hand: for every query whose token came up before, the cell of the key after the latest place."""
    random = np.random.default_rng(5)
    words = [str(word) for word in random.integers(0, 6, size=23)]
    q, k = (random.normal(size=(3, 23, 4)) * 2 for _ in "qk")
    problem = Problem(q, k, k, Rule(0.5, mask=causal() if is_causal else Mask()))
    tokens = tuple(Token(i, word, special=i == 4) for i, word in enumerate(words))
    call = replace(call_of(problem, tensors=tensors), queries=tokens, keys=tokens)
    heads = reduce(call, HeadStatistics()).part(Heads)
    weights, cells = attended(problem).weights, []
    for i in range(23):
        earlier = [j for j in range(i) if words[j] == words[i] and 4 not in (i, j)]
        if earlier:
            cells.append(weights[:, i, earlier[-1] + 1])
    assert 10 < len(cells) < 23
    np.testing.assert_allclose(heads.induction_weight, np.mean(cells, axis=0), **CLOSE)


@given(problem=problems(), tensors=st.booleans())
def test_the_largest_score_is_that_of_all_rows(problem: Problem, tensors: bool) -> None:
    expected = attended(problem).scores.max(axis=(-2, -1))
    expected = np.where(np.isneginf(expected), np.nan, expected)
    np.testing.assert_allclose(heads_of(problem, tensors=tensors).max_score, expected, **CLOSE)


def test_of_weights_alone_there_is_no_largest_score() -> None:
    words = tuple(Token(i, f"t{i}", start=i, end=i + 1) for i in range(4))
    call = replace(call_of(Problem(*np.ones((3, 2, 4, 3)), Rule(1.0)), tensors=False), queries=words, keys=words)
    heads = reduce(InWords(call), HeadStatistics()).part(Heads)
    assert heads is not None
    assert np.isnan(heads.max_score).all()
    assert heads.ruled.tolist() == [0.0, 0.0]
