"""Scores taken apart: contrasts add up to the logarithm of a weight less its mean; content and position by loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.kernel.definition.positions import Rotation, Turning, rotary
from attn_cli.kernel.definition.softmax import softmax
from attn_cli.kernel.lessons.why import columns_of, row_terms


@st.composite
def rows(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A query `[d]`, keys `[m, d]` and which of them are visible."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, d = draw(st.integers(1, 9)), 2 * draw(st.integers(1, 4))
    visible = rng.random(m) < 0.7
    visible[rng.integers(m)] = True
    return 2 * rng.normal(size=d), rng.normal(size=(m, d)), visible


@given(rows(), st.booleans(), st.booleans())
def test_contrasts_add_up_to_the_log_weight_less_its_mean(
    row: tuple[np.ndarray, np.ndarray, np.ndarray], has_bias: bool, has_sink: bool
) -> None:
    q, k, visible = row
    bias = np.cos(np.arange(len(k))) if has_bias else None
    terms = row_terms(q, k, visible, 0.5, bias=bias)
    scores = np.where(visible, k @ q * 0.5 + (0 if bias is None else bias), -np.inf)
    weights = softmax(scores[None, None], np.array([1.0]) if has_sink else None)[0, 0]
    logs = np.log(weights[visible])
    total = terms.contrasts.sum(axis=1) + (0 if terms.bias is None else terms.bias)
    np.testing.assert_allclose(total[visible], logs - logs.mean(), atol=1e-9)
    np.testing.assert_allclose(terms.scores[visible], scores[visible], atol=1e-12)
    assert terms.mean_score == pytest.approx(scores[visible].mean())
    assert sorted(terms.ranks[visible]) == list(range(1, int(visible.sum()) + 1))


@given(rows())
def test_a_softcap_is_said_as_the_factor_that_it_leaves(row: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    q, k, visible = row
    terms = row_terms(q, k, visible, 1.0, softcap=1.5)
    capped = 1.5 * np.tanh(k @ q / 1.5)
    expected = capped - capped[visible].mean()
    assert terms.cap_factor is not None
    np.testing.assert_allclose(terms.contrasts.sum(axis=1) * terms.cap_factor, expected, atol=1e-9)


@pytest.mark.parametrize("interleaved", [False, True])
@given(row=rows())
def test_content_is_the_mean_over_all_distances_and_position_the_rest(
    interleaved: bool, row: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> None:
    q, k, visible = row
    m, i = len(k), len(k) - 1
    rotation = Rotation(interleaved=interleaved)
    turned = rotation.turn(k)
    query = rotation.turn(q[None], i)[0]
    d = k.shape[1]
    angles = np.arange(m)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)  # [m, d/2]
    first, second = np.arange(d).reshape(-1, 2).T if interleaved else np.arange(d).reshape(2, -1)
    turning = Turning(tuple(first), tuple(second), np.cos(angles), np.sin(angles), "halves")
    terms = row_terms(query, turned, visible, 0.5, turning=turning)
    places = np.flatnonzero(visible)

    def at(key: np.ndarray, place: int) -> float:
        return float(query @ rotary(key[None], np.array([float(place)]), interleaved=interleaved)[0]) * 0.5

    content = np.array([np.mean([at(key, place) for place in places]) for key in k])
    scores = np.array([at(k[j], j) for j in range(m)])
    distance = np.array([at(k[visible].mean(axis=0), j) for j in range(m)])
    assert terms.content is not None and terms.position is not None and terms.distance_ranks is not None
    np.testing.assert_allclose(terms.content, content - content[visible].mean(), atol=1e-9)
    contrast = scores - scores[visible].mean()
    np.testing.assert_allclose(terms.content + terms.position, contrast, atol=1e-9)
    np.testing.assert_allclose(terms.contrasts.sum(axis=1), contrast, atol=1e-9)
    if len(set(np.round(distance[visible], 9))) == len(places):
        best = places[np.argsort(-distance[visible])]
        assert [int(terms.distance_ranks[place]) for place in best] == list(range(1, len(places) + 1))


def test_pairs_stand_before_columns_that_are_not_turned() -> None:
    columns = columns_of(Turning((4, 5), (6, 7)), 8)
    assert columns.first.tolist() == [4, 5, 0, 1, 2, 3]
    assert columns.second.tolist() == [6, 7, -1, -1, -1, -1]


def test_a_bias_alone_is_the_position_and_where_nothing_is_known_there_is_none() -> None:
    q, k, visible, bias = np.ones(2), np.eye(3, 2), np.array([True] * 3), np.array([0.0, -1.0, -2.0])
    known = row_terms(q, k, visible, 1.0, bias=bias, turning=Turning())
    assert known.content is not None and known.position is not None and known.distance_ranks is not None
    assert known.position.tolist() == known.bias.tolist() == [1.0, 0.0, -1.0]  # type: ignore[union-attr]
    np.testing.assert_allclose(known.content, [1 / 3, 1 / 3, -2 / 3])
    assert known.distance_ranks.tolist() == [1, 2, 3]
    for turning in (None, Turning(unknown="nobody knows")):
        terms = row_terms(q, k, visible, 1.0, bias=bias, turning=turning)
        assert (terms.content, terms.position, terms.content_ranks) == (None, None, None)
    assert row_terms(q, k, visible, 1.0, turning=Turning()).content is None  # no bias: places are in the vectors
