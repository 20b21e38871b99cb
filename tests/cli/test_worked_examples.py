"""The small tables that introductions work through by hand; `--steps`, `--decode` and `attn scale` on them."""

import numpy as np
import pytest
from hypothesis import given

from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.latent import Operands
from attn_cli.kernel.definition.mask import all_of, causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.summaries.answers.decode import decode
from attn_cli.summaries.answers.scale import spread
from tests.program import attn, refused
from tests.strategies import Problem, problems

FOUR_DIGITS = {"rtol": 0, "atol": 5.1e-5}  # the numbers below are rounded to four digits


def maps(table: str, text: str) -> dict[str, np.ndarray]:
    run = attn("matrix", text, "-m", f"toy:{table}", "--json")
    assert (run.code, run.errors) == (0, "")
    shown = run.json["tables"]["matrices"][0]
    return {name: np.array(shown[name][0]) for name in ("scores", "weights")}


def compute(*arguments: str) -> dict[str, np.ndarray]:
    run = attn("compute", *arguments, "--json")
    assert (run.code, run.errors) == (0, "")
    return {name: np.array(numbers) for name, numbers in run.json["matrices"].items()}


pytestmark = pytest.mark.usefixtures("here")


def test_the_cat_sat() -> None:
    found = maps("the-cat-sat", "the cat sat")
    # q_cat = .7 .4 .5 .3 with k_the = .5 .2 .4 .1: .35 + .08 + .20 + .03 = .66
    #                        k_cat = .6 .7 .3 .2: .42 + .28 + .15 + .06 = .91
    #                        k_sat = .4 .3 .7 .6: .28 + .12 + .35 + .18 = .93; each times 1/sqrt(4)
    np.testing.assert_allclose(found["scores"][1], [0.33, 0.455, 0.465], atol=1e-12)
    # exp(.33) = 1.3910, exp(.455) = 1.5762, exp(.465) = 1.5920, their sum 4.5592
    np.testing.assert_allclose(found["weights"][1], [0.3051, 0.3457, 0.3492], **FOUR_DIGITS)


def test_the_cat_sat_with_the_scores_it_is_told_with() -> None:
    # Scores 2 4 6 for "cat" and d = 4: q = (2 4 6 0) on unit keys gives them, times 1/sqrt(4) is 1 2 3.
    # exp: 2.7183 7.3891 20.0855, sum 30.1929, so .0900 .2447 .6652.
    values = ".1 .4 .2 .5; .5 .6 .3 .1; .7 .2 .4 .8"
    found = compute("--q", "2 4 6 0", "--k", "1 0 0 0; 0 1 0 0; 0 0 1 0", "--v", values)
    np.testing.assert_allclose(found["scores"], [[2, 4, 6]])
    np.testing.assert_allclose(found["scaled"], [[1, 2, 3]])
    np.testing.assert_allclose(found["weights"], [[0.0900, 0.2447, 0.6652]], **FOUR_DIGITS)
    # .0900 * .1 + .2447 * .5 + .6652 * .7 = .0090 + .1224 + .4657 = .5970, and so on
    np.testing.assert_allclose(found["output"], [[0.5970, 0.3159, 0.3575, 0.6017]], **FOUR_DIGITS)


def test_my_name_is_ankit_by_raw_dot_products() -> None:
    # Ankit = (.88 .12) with My (.12 .33): .1056 + .0396 = .1452; name (.51 -.20): .4488 - .0240 = .4248;
    # is (.22 .78): .1936 + .0936 = .2872; itself: .7744 + .0144 = .7888. The scale 1/sqrt(2) comes on top.
    scores = maps("my-name-is-ankit", "My name is Ankit")["scores"]
    np.testing.assert_allclose(scores[3] * np.sqrt(2), [0.1452, 0.4248, 0.2872, 0.7888], atol=1e-12)
    np.testing.assert_allclose(scores, scores.T)


def test_my_name_is_ankit_projected() -> None:
    found = maps("my-name-is-ankit-projected", "My name is Ankit")
    # q = 10 01 11 21, k = 11 02 10 21: Ankit's (2 1) gives 2+1, 0+2, 2+0, 4+1
    np.testing.assert_allclose(found["scores"] * np.sqrt(2), [[1, 0, 1, 2], [1, 2, 0, 1], [2, 2, 1, 3], [3, 2, 2, 5]])
    # 3 2 2 5 over sqrt(2): 2.1213 1.4142 1.4142 3.5355; exp: 8.3421 4.1133 4.1133 34.3127, sum 50.8812
    np.testing.assert_allclose(found["weights"][3], [0.1640, 0.0808, 0.0808, 0.6744], **FOUR_DIGITS)


WEIGHTS = [
    [0.3680, 0.2066, 0.2189, 0.2066],
    [0.1921, 0.3502, 0.2420, 0.2156],
    [0.1785, 0.2123, 0.3090, 0.3002],
    [0.1759, 0.1974, 0.3133, 0.3133],
]


def test_the_cat_sat_down() -> None:
    # The = (1 0 0): dot products 1 0 .1 0 over sqrt(3): .5774 0 .0577 0; exp: 1.7814 1 1.0594 1, sum 4.8408
    found = maps("the-cat-sat-down", "The cat sat down")
    np.testing.assert_allclose(found["weights"], WEIGHTS, **FOUR_DIGITS)


def test_the_cat_sat_down_on_ones_own_matrix() -> None:
    np.savetxt("x.csv", [[1, 0, 0], [0, 1, 0.2], [0.1, 0.2, 1], [0, 0, 1]], delimiter=",")
    found = compute("--q", "x.csv")
    np.testing.assert_allclose(found["weights"], WEIGHTS, **FOUR_DIGITS)
    # row The: .3680 * 1 + .2189 * .1 = .3899; .2066 * 1 + .2189 * .2 = .2504; .2066 * .2 + .2189 + .2066 = .4668
    output = [[0.3899, 0.2504, 0.4668], [0.2163, 0.3986, 0.5277], [0.2094, 0.2741, 0.6516], [0.2072, 0.2601, 0.6662]]
    np.testing.assert_allclose(found["output"], output, **FOUR_DIGITS)


@pytest.mark.parametrize(
    ("scores", "weights"),
    [
        # exp: 7.3891 2.7183 1.6487, sum 11.7561
        ([2, 1, 0.5], [0.6285, 0.2312, 0.1402]),
        # 1, exp(-5) = .0067, exp(-10) = .00005: the softmax is saturated
        ([50, 45, 40], [0.9933, 0.0067, 0.0000]),
        # the same over sqrt(64): 1, exp(-.625) = .5353, exp(-1.25) = .2865, sum 1.8218
        ([6.25, 5.625, 5], [0.5489, 0.2938, 0.1573]),
    ],
)
def test_softmax(scores: list[float], weights: list[float]) -> None:
    found = compute("--scores", " ".join(map(str, scores)))
    np.testing.assert_allclose(found["weights"], [weights], **FOUR_DIGITS)


def test_the_ladder_on_the_words_themselves() -> None:
    # Rung 2, blindly: a quarter of every row. x: The 1 0 0, cat 0 1 .2, sat .1 .2 1, down 0 0 1, their mean is
    # 1.1/4, 1.2/4, 2.2/4.
    blind = compute("The cat sat down", "-m", "toy:the-cat-sat-down", "--weights", "uniform")
    np.testing.assert_allclose(blind["weights"], np.full((4, 4), 0.25))
    np.testing.assert_allclose(blind["output"], [[0.275, 0.3, 0.55]] * 4)
    # Rung 3, raw dot products: no softmax, no scale; the arithmetic is above.
    raw = compute("My name is Ankit", "-m", "toy:my-name-is-ankit", "--weights", "scores", "--scale", "off")
    np.testing.assert_allclose(raw["weights"][3], [0.1452, 0.4248, 0.2872, 0.7888], atol=1e-12)
    # ... mixed: .1452 My + .4248 name + .2872 is + .7888 Ankit, first column:
    # .1452 * .12 + .4248 * .51 + .2872 * .22 + .7888 * .88 = .0174 + .2166 + .0632 + .6941 = .9914
    np.testing.assert_allclose(raw["output"][3, 0], 0.9914, **FOUR_DIGITS)
    # Rung 4: softmax of projected products without scale; with it they are those above.
    projected = ("My name is Ankit", "-m", "toy:my-name-is-ankit-projected")
    plain = compute(*projected, "--scale", "off")
    # exp(3 2 2 5): 20.0855 7.3891 7.3891 148.4132, sum 183.2768
    np.testing.assert_allclose(plain["weights"][3], [0.1096, 0.0403, 0.0403, 0.8098], **FOUR_DIGITS)


def test_weights_below_0_are_shown_as_such() -> None:
    """Without a softmax the weights are the scores, also where blocks are pooled."""
    values = np.random.default_rng(4).normal(size=(150, 3))
    values[:, 0] = 9
    np.savetxt("q.csv", values, delimiter=",")
    np.savetxt("k.csv", values - [18, 0, 0], delimiter=",")  # so every product is below 0
    for matrices in (("My name is Ankit", "-m", "toy:my-name-is-ankit"), ("--q", "q.csv", "--k", "k.csv")):
        run = attn("compute", *matrices, "--weights", "scores", "--scale", "off")
        weights = run.text.split("\nweights · ")[1].split("\n\n")[0].strip()
        assert "-" in weights.splitlines()[0].partition("min" if "min" in weights else "cells")[2]


def test_growing_scores_saturate_the_softmax() -> None:
    rows = attn("scale", "--factors", "0.125,1", "--json").json["tables"]["saturation"]
    assert rows[0]["scores"] == [6.25, 5.625, 5]
    np.testing.assert_allclose(rows[0]["weights"], [0.5489, 0.2938, 0.1573], **FOUR_DIGITS)
    np.testing.assert_allclose(rows[1]["weights"], [0.9933, 0.0067, 0.0000], **FOUR_DIGITS)
    w = np.array(rows[0]["weights"])
    assert rows[0]["entropy_bits"] == pytest.approx(-(w * np.log2(w)).sum())
    assert rows[0]["slope"] == pytest.approx((w * (1 - w)).max())
    other = attn("scale", "--scores", "2,1,0.5", "--factors", "1", "--json").json["tables"]
    np.testing.assert_allclose(other["saturation"][0]["weights"], [0.6285, 0.2312, 0.1402], **FOUR_DIGITS)


@pytest.mark.parametrize("d", [1, 16, 256])
def test_the_variance_of_a_product_is_d_and_1_after_the_scale(d: int) -> None:
    found = spread(d, keys=16, samples=4000, seed=3)
    # 4,000 queries: the variance given q is |q|^2, whose mean has a relative error of sqrt(2 / (4000 d)) at most 2.3 %,
    # and 64,000 products of kurtosis up to 9 add 1.2 %: 10 % are four of these errors.
    assert found["variance"] == pytest.approx(d, rel=0.1)
    assert found["scaled_variance"] == pytest.approx(found["variance"] / d)


def test_wrong_numbers_are_said() -> None:
    refused(attn("scale", "--scores", "a,b"), 2, "--scores 'a,b' is no finite number")
    refused(attn("scale", "--factors", "1,inf"), 2, "no finite number")
    refused(attn("scale", "--dims", "0"), 2, "--dims 0 is not a valid size")


def stages(*arguments: str) -> dict[str, np.ndarray]:
    run = attn(*arguments, "--json", "--quiet")
    assert run.code == 0, run.errors
    found = run.json["tables"]["stages"]
    assert [stage["step"] for stage in found] == list(range(1, len(found) + 1))
    for stage in found:
        assert list(np.array(stage["values"], dtype=object).shape) == stage["shape"]
        assert len(stage["axes"]) == len(stage["shape"])
    return {stage["stage"]: np.array(stage["values"], dtype=float) for stage in found}


VALUES = ".1 .4 .2 .5; .5 .6 .3 .1; .7 .2 .4 .8"
CAT = ["--q", "2 4 6 0", "--k", "1 0 0 0; 0 1 0 0; 0 0 1 0", "--v", VALUES, "--labels", "the cat sat", "--steps"]


def test_the_walk_of_the_worked_example() -> None:
    found = stages("compute", *CAT)
    assert list(found) == [
        *("q", "k", "v", "score parts", "scores", "scaled", "largest", "shifted", "exp", "sum", "weights"),
        *("output parts", "output"),
    ]
    assert found["largest"].tolist() == [[[3]]] and found["score parts"][0, 2].tolist() == [0, 0, 6, 0]
    np.testing.assert_allclose(found["output parts"].sum(axis=1), found["output"][:, 0], **FOUR_DIGITS)
    assert found["scores"].tolist() == [[[2, 4, 6]]]
    assert found["scaled"].tolist() == [[[1, 2, 3]]]
    assert found["shifted"].tolist() == [[[-2, -1, 0]]]
    np.testing.assert_allclose(found["exp"], [[[0.1353, 0.3679, 1]]], **FOUR_DIGITS)
    np.testing.assert_allclose(found["weights"], [[[0.0900, 0.2447, 0.6652]]], **FOUR_DIGITS)
    np.testing.assert_allclose(found["output"], [[[0.5970, 0.3159, 0.3575, 0.6017]]], **FOUR_DIGITS)


def test_every_stage_follows_from_the_one_before() -> None:
    arguments = (
        "compute", "he sat on the river bank", "--projections", "7", "--heads", "4", "--kv-heads", "2",
        "--mask", "causal", "--sink", "0.5", "--positions", "alibi", "--softcap", "2",
    )  # fmt: skip
    found = stages(*arguments, "--steps")
    computed = attn(*arguments, "--json", "-q").json["matrices"]
    k, v = (np.repeat(found[name], 2, axis=0) for name in "kv")
    close = {"rtol": 1e-5, "atol": 1e-6}  # float32
    np.testing.assert_allclose(found["scores"], found["q"] @ k.swapaxes(1, 2), **close)
    np.testing.assert_allclose(found["scaled"], found["scores"] / 4, **close)
    np.testing.assert_allclose(found["capped"], 2 * np.tanh(found["scaled"] / 2), **close)
    distance = np.abs(np.arange(6)[:, None] - np.arange(6))
    slopes = np.array([1 / 4, 1 / 16, 1 / 64, 1 / 256])[:, None, None]
    np.testing.assert_allclose(found["biased"], found["capped"] - slopes * distance, **close)
    assert "alibi 1/4 1/16 1/64 1/256" in attn(*arguments, "-q").text
    assert np.isnan(found["masked"]).sum() == 4 * 15
    top = np.maximum(np.nanmax(found["masked"], axis=-1, keepdims=True), 0.5)
    np.testing.assert_allclose(found["shifted"], found["masked"] - top, **close)
    np.testing.assert_allclose(found["exp"], np.nan_to_num(np.exp(found["shifted"])), **close)
    total = found["exp"].sum(axis=-1, keepdims=True) + np.exp(0.5 - top)
    np.testing.assert_allclose(found["weights"], found["exp"] / total, **close)
    np.testing.assert_allclose(found["output"], found["weights"] @ v, **close)
    np.testing.assert_allclose(found["joined"], np.concatenate(list(found["output"]), axis=-1), **close)
    np.testing.assert_allclose(found["projected"], computed["output"], **close)
    np.testing.assert_allclose(found["weights"], computed["weights"], **close)


def test_rotation_is_a_step_of_its_own() -> None:
    found = stages(*(command := ("compute", "--q", "1 0; 1 0", "--positions", "rotary")), "--steps")
    before_and_after = [[[1, 0], [1, 0]], [[1, 0], [np.cos(1), np.sin(1)]]]
    np.testing.assert_allclose([*found["unrotated k"], *found["k"]], before_and_after, atol=1e-12)
    assert "rotary" in attn(*command).text


def test_inspect_and_compute_walk_alike() -> None:
    text = ("the cat sat", "-m", "toy:the-cat-sat", "--steps", "-t", "sat")
    inspected, computed = stages("inspect", *text), stages("compute", *text)
    assert list(inspected) == list(computed)
    for name, values in computed.items():
        np.testing.assert_array_equal(inspected[name], values)


def test_what_cannot_be_walked_is_said() -> None:
    np.save("q.npy", np.zeros((5000, 2)))
    refused(attn("compute", "--q", "q.npy", "--steps"), 4, "5,000 x 5,000", "--token 0")
    assert attn("compute", "--q", "q.npy", "--steps", "-t", "4999").code == 0
    np.save("q.npy", np.zeros((9000, 2)))
    refused(attn("compute", "--q", "q.npy", "--decode"), 4, "decoding 9,000 tokens")
    refused(attn("compute", "river bank", "--token", "bank"), 2, "--token needs --steps")
    refused(attn("compute", "river bank", "--digits", "4"), 2, "--digits needs --steps")
    refused(attn("compute", "river bank", "--token", "loan", "--steps"), 2, "no token 'loan'")
    refused(attn("compute", "river bank", "--labels", "a"), 2, "--labels names 1 keys, there are 2")


def test_every_score_is_written_as_its_products() -> None:
    """As the worked example does by hand: the row Ankit of q kᵀ."""
    np.savetxt("q.csv", [[1, 0], [0, 1], [1, 1], [2, 1]], delimiter=",")
    np.savetxt("k.csv", [[1, 1], [0, 2], [1, 0], [2, 1]], delimiter=",")
    command = ("compute", "--q", "q.csv", "--k", "k.csv", "--labels", "My,name,is,Ankit", "--steps", "-t")
    lines = [" ".join(line.split()) for line in attn(*command, "Ankit").lines]
    for line in ("My 2 x 1 + 1 x 1 = 2 + 1 = 3", "name 2 x 0 + 1 x 2 = 0 + 2 = 2", "Ankit 2 x 2 + 1 x 1 = 4 + 1 = 5"):
        assert line in lines


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
    for row, found, cache in decode(q, (problem.k, problem.v), Operands, rule):
        assert cache.length == row + 1 + m - n
        np.testing.assert_allclose(found.output[:, 0], whole.output[:, row], rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(found.weights[:, 0], whole.weights[:, row, : cache.length], rtol=1e-11, atol=1e-12)


FORMS = {
    "plain": [],
    "grouped": ["--kv-heads", "2"],
    "absorbed with rotary": ["--latent", "5:absorbed", "--positions", "rotary"],
    "window": ["--mask", "window:2"],
    "alibi and sink": ["--positions", "alibi", "--sink", "0.5"],
}
KEPT = {"grouped": 2 * 8, "absorbed with rotary": 5 + 2}  # numbers a token; a head is 4 wide


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
