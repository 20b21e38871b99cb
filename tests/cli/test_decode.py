"""`--decode` equals the causal matrix, for every kind of keys, and counts what it keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.latent import Operands
from attn_cli.kernel.definition.mask import all_of, causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.lessons.decode import decode
from tests.program import attn, refused
from tests.strategies import Problem, problems

pytestmark = pytest.mark.usefixtures("here")


@given(problems(raw=True))
def test_decoding_is_causal_attention(problem: Problem) -> None:
    n, m = problem.q.shape[1], problem.k.shape[1]
    q = problem.q[:, : min(n, m)]
    rule = problem.rule
    n = q.shape[1]
    bias = rule.bias_of(0, n, 0, m)
    rule = Rule(rule.scale, rule.softcap, bias, all_of(causal(m - n), rule.mask), rule.sink, rule.softmax)
    if hasattr(problem.rule.mask, "cells"):
        rule = Rule(rule.scale, rule.softcap, bias, causal(m - n), rule.sink, rule.softmax)
    whole = attend(q, problem.k, problem.v, rule)
    for found, cache in decode(q, (problem.k, problem.v), Operands, rule):
        assert cache.length == found.reused + 1 == found.row + 1 + m - n
        np.testing.assert_allclose(found.output[:, 0], whole.output[:, found.row], rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(
            found.weights[:, 0], whole.weights[:, found.row, : cache.length], rtol=1e-11, atol=1e-12
        )


@given(st.integers(1, 6))
def test_the_past_is_never_touched_again(n: int) -> None:
    x = np.random.default_rng(n).normal(size=(1, n, 3))
    before: list[np.ndarray] = []
    for found, cache in decode(x, (x, x), Operands, Rule(1.0, mask=causal())):
        kept = cache.rows()[0]
        for row, old in enumerate(before):
            np.testing.assert_array_equal(kept[0, row], old)
        before.append(kept[0, found.row].copy())


FORMS = {
    "plain": [],
    "grouped": ["--kv-heads", "2"],
    "multi-query": ["--kv-heads", "1"],
    "latent": ["--latent", "5"],
    "absorbed": ["--latent", "5:absorbed"],
    "rotary": ["--positions", "rotary"],
    "latent with rotary": ["--latent", "5", "--positions", "rotary"],
    "absorbed with rotary": ["--latent", "5:absorbed", "--positions", "rotary"],
    "window": ["--mask", "window:2"],
    "alibi and sink": ["--positions", "alibi", "--sink", "0.5"],
}
KEPT = {"plain": 4 * 8, "grouped": 2 * 8, "multi-query": 8, "latent": 5, "absorbed": 5, "latent with rotary": 5 + 2,
        "absorbed with rotary": 5 + 2}  # numbers a token; a head is 4 wide  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_keys_decodes_to_its_causal_matrix(form: str) -> None:
    np.save("x.npy", np.random.default_rng(1).normal(size=(7, 16)))
    command = ["compute", "--x", "x.npy", "--projections", "2", "--heads", "4", *FORMS[form], "-q", "--json"]
    tables = attn(*command, "--decode").json["tables"]
    whole = attn(*command, "--mask", "causal").json["matrices"]
    assert tables["run"][0]["difference"] < 1e-12
    assert attn(*command[:-1], "--decode", "-o", "decoded.npz").code == 0
    with np.load("decoded.npz") as file:
        np.testing.assert_allclose(file["weights"], whole["weights"], atol=1e-12)
    steps = tables["steps"]
    assert [step["reused"] for step in steps] == list(range(7))
    kept = KEPT.get(form, 4 * 8)
    assert [step["cached_numbers"] for step in steps] == [kept * (row + 1) for row in range(7)]
    assert tables["run"][0]["cached_numbers_per_token"] == kept


def test_more_keys_than_queries_are_a_past_that_was_kept_before() -> None:
    rng = np.random.default_rng(0)
    np.save("q.npy", rng.normal(size=(2, 4)))
    np.save("k.npy", rng.normal(size=(5, 4)))
    found = attn("compute", "--q", "q.npy", "--k", "k.npy", "--decode", "--json").json["tables"]
    assert [step["reused"] for step in found["steps"]] == [3, 4]
    np.save("q.npy", rng.normal(size=(6, 4)))
    refused(attn("compute", "--q", "q.npy", "--k", "k.npy", "--decode"), 2, "6 queries but 5 keys")


def test_multiplications_by_hand() -> None:
    # 3 tokens, 1 head of 4: step t computes t scores and mixes t values of 4 numbers each: 8 t.
    # Without a cache, step t does all rows up to t: 8 (1 + 2 + ... + t).
    run = attn("compute", "the cat sat", "-m", "toy:the-cat-sat", "--decode", "--json")
    steps = run.json["tables"]["steps"]
    assert [step["multiplications"] for step in steps] == [8, 16, 24]
    assert [step["multiplications_without_cache"] for step in steps] == [8, 24, 48]
    assert [step["query_token"] for step in steps] == ["the", "cat", "sat"]
