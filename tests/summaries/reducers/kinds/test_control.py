"""Keys of the control are as far away as targets are, and are none; those of a text are its own wherever it stands."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.prompt import Token
from attn_cli.summaries.reducers.kinds.targets import (
    DRAWN,
    DUPLICATE,
    INDUCTION,
    Targets,
    TextRows,
    hashed,
    shares_of,
    targets_of,
)

TEXTS = st.lists(st.integers(0, 4), min_size=3, max_size=40)


def targets(ids: list[int], sinks: list[int], *, is_causal: bool, seed: int = 0) -> Targets:
    tokens = [Token(at, str(number), number) for at, number in enumerate(ids)]
    found = targets_of(TextRows.of(tokens, np.array(sinks, np.int64)), is_causal=is_causal, seed=seed)
    lists = {kind: np.hstack([found.lists[kind], found.on_sinks[kind]]) for kind in (INDUCTION, DUPLICATE)}
    return found._replace(lists=lists)


@given(TEXTS, st.booleans())
def test_keys_are_as_far_away_as_targets_and_neither_target_nor_sink(ids: list[int], is_causal: bool) -> None:
    found = targets(ids, [0], is_causal=is_causal)
    for kind in (INDUCTION, DUPLICATE):
        lists, control = found.lists[kind], found.controls[kind]
        far = {query - key for query, keys in enumerate(lists.tolist()) for key in keys if key >= 0}
        for query, keys in enumerate(control.tolist()):
            drawn = [key for key in keys if key >= 0]
            assert all(key in range(1, len(ids)) and query - key in far for key in drawn)
            shift = kind is INDUCTION
            assert not [key for key in drawn if ids[key - shift] == ids[query] and key - shift != query]
            assert not drawn or max(lists[query]) >= 0


def test_many_queries_have_as_many_as_are_asked_for() -> None:
    found = targets(np.random.default_rng(0).integers(0, 50, 300).tolist(), [0], is_causal=True)
    for kind in (INDUCTION, DUPLICATE):
        some = found.lists[kind].max(axis=1) >= 0
        assert ((found.controls[kind][some & (np.arange(300) > 200)] >= 0).sum(axis=1) == DRAWN).mean() > 0.95
        assert (found.controls[kind][~some] == -1).all()


def test_draws_are_those_of_seed_kind_place_and_text() -> None:
    places = np.array([3, 0])
    one, other = hashed([1, 2]), hashed([2, 1])
    shares = shares_of(5, INDUCTION, places, one)
    alone = shares_of(5, INDUCTION, np.array([3]), one)
    assert (shares[0] == alone[0]).all() and ((shares >= 0) & (shares < 1)).all()
    assert not np.isclose(alone, shares_of(5, INDUCTION, np.array([3]), other)).any()
    assert not np.isclose(alone, shares_of(6, INDUCTION, np.array([3]), one)).any()
    assert not np.isclose(alone, shares_of(5, DUPLICATE, np.array([3]), one)).any()
