"""Kinds of heads equal loops over tokens on dense weights, by the compiled walk and in bands, under any rule."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.definition import dense
from attn_cli.kernel.definition.mask import Ends, Mask, all_of, causal, given_mask, prefix, window
from attn_cli.kernel.definition.mask import dense as dense_mask
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds, HeadKindsReducer
from attn_cli.summaries.reducers.kinds.targets import (
    DUPLICATE,
    INDUCTION,
    KINDS,
    PREVIOUS,
    UNIFORM,
    Targets,
    TextRows,
    targets_of,
)
from attn_cli.summaries.sight import Sight
from attn_cli.summaries.sinks import SinkRows, expected_sinks
from attn_cli.summaries.standing_out import FOCUSED, StandOut
from tests.summaries.reducers.kinds.oracle import numbers

NAMES = [kind.name for kind in KINDS if kind is not UNIFORM]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def masks(n: int) -> dict[str, Mask]:
    return {
        "causal": causal(),
        "encoder": Mask(),
        "window": all_of(causal(), window(9)),
        "prefix": prefix(5),
        "holes": all_of(causal(), given_mask(torch.tensor(np.random.default_rng(1).random((n, n)) < 0.7))),
    }


def tokens_of(words: str, *, special: bool) -> tuple[Token, ...]:
    texts = words.split()
    ends = {0, len(texts) - 1} if special else set()
    return tuple(Token(at, text, special=at in ends) for at, text in enumerate(texts))


def kinds_of(q, k, v, rule: Rule, tokens: tuple[Token, ...], stream: str = "self") -> HeadKinds:
    h, g = q.shape[0], k.shape[0]
    place = Place(0, "m", tuple(range(h)), tuple(at * g // h for at in range(h)), stream)
    queries = tokens[-q.shape[1] :] if q.shape[1] <= len(tokens) else tokens
    call = AttentionCall(q, k, v, rule, place, queries, tokens)
    part = reduce(call, HeadKindsReducer()).part(HeadKinds)
    assert part is not None
    return part


@pytest.mark.parametrize("library", ["numpy", "compiled"])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_it_is_what_loops_over_tokens_say(library: str, data: st.DataObject) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n = data.draw(st.integers(2, 60))
    special = data.draw(st.booleans())
    words = " ".join(random.choice(["the", "bank", "of", ",", "a", "river", "."], n))
    tokens = tokens_of(words, special=special)
    name = data.draw(st.sampled_from(list(masks(1))))
    mask = masks(n)[name]
    sink = data.draw(st.sampled_from([None, np.array([0.5, 1.0])]))
    q, k, v = (random.normal(size=(heads, n, 6)).astype(np.float32) for heads in (2, 1, 1))
    exact = dense.attend(*(x.astype(np.float64) for x in (q, k, v)), Rule(2.0, mask=_numpy(mask), sink=sink))
    causal = name != "encoder" and name != "prefix"
    seen = dense_mask(_numpy(mask), n, n, like=np.empty(0))
    rule = Rule(2.0, mask=mask if library == "compiled" else _numpy(mask), sink=sink)
    if library == "compiled":
        q, k, v = (torch.tensor(x) for x in (q, k, v))
        rule = Rule(2.0, mask=mask, sink=None if sink is None else torch.tensor(sink, dtype=torch.float32))
    judged = kinds_of(q, k, v, rule, tokens).judged
    texts, specials = [token.text for token in tokens], [token.special for token in tokens]
    wanted = numbers(exact.weights, seen, texts, specials, NAMES, causal=causal, learned_sink=sink is not None)
    for number, kind in enumerate(KINDS):
        if kind is UNIFORM:
            continue
        want = wanted[kind.name]
        np.testing.assert_allclose(judged.weight[number], want.weight, err_msg=f"{kind.name} {name}", **CLOSE)
        np.testing.assert_allclose(
            judged.share[number], want.share, rtol=1e-4, atol=1e-5, err_msg=f"{kind.name} {name}"
        )
        np.testing.assert_allclose(judged.baseline[number], want.chance, err_msg=f"{kind.name} {name}", **CLOSE)
    few = seen.sum(axis=1) >= 4
    if few.any():
        entropy = -(exact.weights * np.log(np.maximum(exact.weights, 1e-300))).sum(axis=-1)[:, few]
        even = (entropy / np.log(seen.sum(axis=1)[few])).mean(axis=-1)
        np.testing.assert_allclose(judged.weight[KINDS.index(UNIFORM)], even, rtol=1e-4, atol=1e-5)


def _numpy(mask: Mask) -> Mask:
    cells = None if mask.cells is None else mask.cells.numpy()
    return replace(mask, cells=cells, parts=tuple(map(_numpy, mask.parts)))


@pytest.mark.parametrize("library", ["numpy", "compiled"])
def test_a_share_keeps_its_digits_where_the_sink_gets_all_but_a_trace(library: str) -> None:
    """1 less the sink's weight would lose them: heads of real models give their first token 0.9999 and more."""
    random = np.random.default_rng(4)
    tokens = tokens_of(" ".join(["start", *"abcdefghab", *"cdefgh"]), special=False)
    n = len(tokens)
    q, k, v = (random.normal(size=(1, n, 4)).astype(np.float32) for _ in "qkv")
    q[..., 0], k[..., 0] = 1.0, 0.0
    k[:, 0, 0] = 18.0  # what is left for everything else is below 1e-4
    exact = dense.attend(*(x.astype(np.float64) for x in (q, k, v)), Rule(1.0, mask=causal()))
    assert exact.weights[0, 1:, 0].min() > 0.9999
    seen = dense_mask(causal(), n, n, like=np.empty(0))
    texts, specials = [token.text for token in tokens], [False] * n
    wanted = numbers(exact.weights, seen, texts, specials, NAMES, causal=True, learned_sink=False)["induction"].share
    if library == "compiled":
        q, k, v = (torch.tensor(x) for x in (q, k, v))
    judged = kinds_of(q, k, v, Rule(1.0, mask=causal()), tokens).judged
    np.testing.assert_allclose(judged.share[[kind.name for kind in KINDS].index("induction")], wanted, rtol=1e-5)


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


TOKENS = (Token(0, "[CLS]", special=True), Token(1, "river"), Token(2, "bank"), Token(3, "[SEP]", special=True))


@pytest.mark.parametrize(
    ("mask", "stream", "sinks"),
    [(causal(), "self", [0]), (Mask(), "self", [0, 3]), (causal(), "cross", [0, 3])],
    ids=["causal", "encoder", "cross"],
)
def test_the_first_key_is_expected_where_nobody_looks_ahead_and_special_tokens_elsewhere(mask, stream, sinks) -> None:
    x = np.ones((1, 4, 2))
    call = AttentionCall(x, x, x, Rule(1.0, mask=mask), Place(0, "m", (0,), (0,), stream), TOKENS, TOKENS)
    assert expected_sinks(call).tolist() == sinks


def test_a_sink_receives_much_and_more_than_uniform_attention_gives() -> None:
    reception = np.array([[0.46, 0.31, 0.29], [0.46, 0.9, 0.0]])
    rows = SinkRows(Sight(Ends(np.zeros(10, int), np.full(10, 3)), 3))
    rows.uniform = 10 * np.array([0.3, 0.1, 0.01])
    is_sink = rows.sinks(10 * reception, np.zeros((2, 3)))
    assert is_sink.tolist() == [[False, True, False], [False, True, False]]


def shares_of_own(n: int, own: float) -> AttentionCall:
    """A causal head of which every row gives the share `own` to itself, and the rest to its other keys alike."""
    before = np.arange(n)[:, None]
    alike = (1 - own) / np.maximum(before, 1)
    weights = np.where(np.eye(n, dtype=bool), own, alike) * np.tri(n)
    q, k = np.log(np.maximum(weights, 1e-30))[None], np.eye(n)[None]
    tokens = tuple(Token(at, f"t{at}") for at in range(n))
    return AttentionCall(q, k, k, Rule(1.0, mask=causal()), Place(0, "m", (0,), (0,)), tokens, tokens)


@pytest.mark.parametrize("own", [0.4, 0.9])
def test_a_key_that_few_rows_see_is_no_sink(own: float) -> None:
    """Every key of this head is seen by itself mostly; the last ones are no more of a sink than the others."""
    part = reduce(shares_of_own(32, own), HeadKindsReducer()).part(HeadKinds)
    assert part is not None and not part.is_sink.any()


def test_heads_that_find_content_come_first_and_those_of_few_rows_after_them() -> None:
    order = ((INDUCTION, True, 9), (INDUCTION, False, 2), (PREVIOUS, True, 9), (FOCUSED, True, 9), (FOCUSED, False, 0))
    outs = [StandOut(0, at, 0, at, kind, judged, 0.5, rows, None) for at, (kind, judged, rows) in enumerate(order)]
    heavier = [replace(outs[at], at=9, weight=0.9) for at in (0, 3)]
    found = sorted([*reversed(outs), *heavier], key=lambda out: out.order)
    assert found == [heavier[0], *outs[:3], heavier[1], *outs[3:]]
