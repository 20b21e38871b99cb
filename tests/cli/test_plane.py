"""attn plane: points equal a PCA in plain NumPy, panels hold every word, one place or another."""

import re
from pathlib import Path

import numpy as np
import pytest

from attn_cli.sources.tables import VectorTable, open_table
from attn_cli.sources.tables.small import SMALL_TABLES
from tests.program import attn, refused
from tests.real_models import MINILM
from tests.views.test_schemas import hold

RIVER, LOAN = "he sat on the river bank", "the bank gave me a loan"


def test_points_are_principal_components_of_both_together() -> None:
    run = attn("plane", RIVER, LOAN, "--json")
    hold(run, "plane")
    points = run.json["result"]["points"]
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
    ours = np.array([point["before"] for point in points] + [point["after"] for point in points])
    theirs = centred @ directions[:2].T
    assert np.allclose(np.abs(ours), np.abs(theirs), atol=1e-5)
    assert np.allclose(run.json["result"]["variance_shares"], (sizes[:2] ** 2) / (sizes**2).sum(), atol=1e-6)
    assert [point["token"] for point in points] == (RIVER + " " + LOAN).split()
    banks = [point for point in points if point["token"] == "bank"]
    assert banks[0]["before"] == banks[1]["before"]
    assert banks[0]["after"] != banks[1]["after"]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_every_word_is_on_the_screen_twice(width: int, encoding: str) -> None:
    text = attn("plane", RIVER, env={"COLUMNS": str(width)}, encoding=encoding).bytes.decode(encoding)
    body = text.split("before attention")[1].split("layer 0")[0]
    for word in RIVER.split():
        assert len(re.findall(rf"\b{word}\b", body)) == 2, word
    assert max(map(len, text.splitlines())) <= width


def test_wide_and_hostile_words_stay_in_their_frame(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(
        '{"\\u6cb3": [1, 0], "\\u94f6\\u884c": [0, 1], "a": [1, 1], "e\\u0301\\u0301": [2, 0]}'
    )
    run = attn("plane", "河 银行 a e\u0301\u0301 a", "-m", tmp_path / "t.json", env={"COLUMNS": "60"})
    assert run.errors == ""
    from rich.cells import cell_len

    framed = [line for line in run.lines if line.startswith("│")]
    assert framed
    assert {cell_len(line) for line in framed} == {60}
    assert "e\u0301\u0301" in run.text
    assert len(re.findall(r"\ba\b", "".join(framed))) == 2  # both a's are at one place, before and after


def test_a_model_and_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = MINILM
    run = attn("plane", RIVER, "-m", folder, "-l", "1-3", "--unit", "--json")
    hold(run, "plane")
    assert run.json["result"]["layers"] == [1, 3]
    assert [point["token"] for point in run.json["result"]["points"]] == RIVER.split()  # no [CLS], no [SEP]
    assert attn("plane", RIVER, "-o", "p.npz").code == 0
    with np.load("p.npz") as file:
        assert file["before"].shape == file["after"].shape == (6, 2)
        x = open_table().vectors[[open_table().words.index(word) for word in RIVER.split()]]
        assert np.allclose((x - file["centre"]) @ file["axes"].T, file["before"], atol=1e-5)
    assert attn("plane", RIVER, "-f", "csv").lines[0] == "text,index,token,before_x,before_y,after_x,after_y"
    for format in ("html", "svg"):
        assert b"river" in attn("plane", RIVER, "-f", format).bytes


def test_clouds_of_other_sizes_are_told_and_unit_makes_them_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(0).normal(size=(4, 3))
    words = ("the", "cat", "sat", "down")
    for name, v in (("plain", vectors), ("grown", 50 * vectors)):
        monkeypatch.setitem(SMALL_TABLES, name, VectorTable(name, words, vectors, 1, v=v))
    asked = "plane", "the cat sat down", "-m"
    assert "--unit compares directions alone" in attn(*asked, "toy:grown").text
    unit = attn(*asked, "toy:grown", "--unit").text
    assert "normalised vectors" in unit and "--unit compares" not in unit
    plain, longer = (attn(*asked, f"toy:{name}", "--unit", "--json").json["result"]["points"]
                     for name in ("plain", "grown"))  # fmt: skip
    for one, other in zip(plain, longer, strict=True):  # lengths say nothing any more
        assert np.allclose(one["before"] + one["after"], other["before"] + other["after"], atol=1e-5)


def test_bad_questions_are_refused() -> None:
    refused(attn("plane"), 2, "Missing argument")
    refused(attn("plane", *"abcdefghij"), 2, "10 texts, at most 9")
    refused(attn("plane", "zzqqy"), 2, "no word of the text")
    refused(attn("plane", "river", "-l", "2"), 2, "there is no attention layer 2")
