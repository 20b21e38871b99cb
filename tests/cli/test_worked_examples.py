"""The small tables that introductions work through by hand, with every number derived beside it."""

import numpy as np
import pytest

from tests.program import attn

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


def test_my_name_is_ankit_projected_without_scale() -> None:
    keys = "1 1; 0 2; 1 0; 2 1"
    found = compute("--q", "2 1", "--k", keys, "--v", keys, "--scale", "1")
    # exp(3 2 2 5): 20.0855 7.3891 7.3891 148.4132, sum 183.2768
    np.testing.assert_allclose(found["weights"], [[0.1096, 0.0403, 0.0403, 0.8098]], **FOUR_DIGITS)


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
    # Rungs 4 and 5: softmax of projected products without scale, then with it.
    projected = ("My name is Ankit", "-m", "toy:my-name-is-ankit-projected")
    plain = compute(*projected, "--scale", "off")
    np.testing.assert_allclose(plain["scores"], [[1, 0, 1, 2], [1, 2, 0, 1], [2, 2, 1, 3], [3, 2, 2, 5]])
    np.testing.assert_allclose(plain["weights"][3], [0.1096, 0.0403, 0.0403, 0.8098], **FOUR_DIGITS)
    np.testing.assert_allclose(compute(*projected)["weights"][3], [0.1640, 0.0808, 0.0808, 0.6744], **FOUR_DIGITS)
    # x as q, k and v
    whole = compute("The cat sat down", "-m", "toy:the-cat-sat-down")
    np.testing.assert_allclose(whole["weights"], WEIGHTS, **FOUR_DIGITS)
    np.testing.assert_allclose(whole["output"][0], [0.3899, 0.2504, 0.4668], **FOUR_DIGITS)


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
