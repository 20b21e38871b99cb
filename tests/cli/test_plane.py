"""attn plane: points equal a PCA in plain NumPy, and clouds of other sizes are said."""

from pathlib import Path

import numpy as np
import pytest

from attn_cli.sources import tables
from attn_cli.sources.tables import open_table
from tests.program import attn, refused
from tests.real_models import MINILM
from tests.views.test_schemas import hold

RIVER, LOAN = "he sat on the river bank", "the bank gave me a loan"


def test_points_are_principal_components_of_both_together() -> None:
    run = attn("plane", RIVER, LOAN, "--json")
    hold(run, "plane")
    points = run.json["tables"]["points"]
    table = open_table()
    before, after = [], []
    for text in (RIVER, LOAN):
        x = table.vectors[[table.words.index(word) for word in text.split()]].astype(np.float64)
        before.append(x)
        heads = []
        for part in x.reshape(len(x), 4, 16).transpose(1, 0, 2):
            exps = np.exp(part @ part.T / 4)
            heads.append(exps / exps.sum(axis=1, keepdims=True) @ part)
        after.append(np.concatenate(heads, axis=1))
    both = np.concatenate(before + after)
    centred = both - both.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred)
    ours = np.array([[point[f"{when}_x"], point[f"{when}_y"]] for when in ("before", "after") for point in points])
    theirs = centred @ directions[:2].T
    assert np.allclose(np.abs(ours), np.abs(theirs), atol=1e-5)
    assert np.allclose(
        [axis["variance_share"] for axis in run.json["tables"]["axes"]], (sizes[:2] ** 2) / (sizes**2).sum(), atol=1e-6
    )
    assert [point["token"] for point in points] == (RIVER + " " + LOAN).split()
    banks = [point for point in points if point["token"] == "bank"]
    assert banks[0]["before_x"] == banks[1]["before_x"]
    assert banks[0]["after_x"] != banks[1]["after_x"]


def test_a_model_and_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = MINILM
    run = attn("plane", RIVER, "-m", folder, "-l", "1-3", "--unit", "--json")
    hold(run, "plane")
    assert run.json["tables"]["run"] == [{"first_layer": 1, "last_layer": 3, "unit": True}]
    assert [point["token"] for point in run.json["tables"]["points"]] == RIVER.split()  # no [CLS], no [SEP]
    assert attn("plane", RIVER, "-o", "p.npz").code == 0
    with np.load("p.npz") as file:
        before = np.stack([file["before_x"], file["before_y"]], axis=1)
        x = open_table().vectors[[open_table().words.index(word) for word in RIVER.split()]]
        assert np.allclose((x - file["centre"]) @ file["axes"].T, before, atol=1e-5)


def test_clouds_of_other_sizes_are_told_and_unit_makes_them_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(0).normal(size=(4, 3))
    words = ("the", "cat", "sat", "down")
    for name, v in (("plain", vectors), ("grown", 50 * vectors)):
        monkeypatch.setitem(tables._SMALL, name, (words, [vectors, vectors, vectors, v]))
    asked = "plane", "the cat sat down", "-m"
    assert "--unit compares directions alone" in attn(*asked, "toy:grown").text
    unit = attn(*asked, "toy:grown", "--unit").text
    assert "--unit compares" not in unit
    plain, longer = (attn(*asked, f"toy:{name}", "--unit", "--json").json["tables"]["points"]
                     for name in ("plain", "grown"))  # fmt: skip
    for one, other in zip(plain, longer, strict=True):  # lengths say nothing any more
        assert np.allclose([one["before_x"], one["after_y"]], [other["before_x"], other["after_y"]], atol=1e-5)


def test_bad_questions_are_refused() -> None:
    refused(attn("plane"), 2, "Missing argument")
    refused(attn("plane", "zzqqy"), 2, "no word of the text")
    refused(attn("plane", "river", "-l", "2"), 2, "there is no attention layer 2")
