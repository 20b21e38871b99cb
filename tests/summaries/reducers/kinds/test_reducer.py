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
from attn_cli.kernel.definition.mask import Mask, all_of, causal, given_mask, prefix, window
from attn_cli.kernel.definition.mask import dense as dense_mask
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds, HeadKindsReducer
from attn_cli.summaries.reducers.kinds.targets import KINDS, UNIFORM
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
@settings(max_examples=25, deadline=None)
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
