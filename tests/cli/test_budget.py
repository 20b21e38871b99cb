"""attn budget: key heads by what a window costs them, on every width, in every format; wrong use is one line."""

from pathlib import Path

import numpy as np
import pytest

from tests.media import WORDS, tokenizer
from tests.program import attn, refused
from tests.summaries.budget.oracle import small_llama
from tests.views.test_schemas import hold

LENGTH = 120
TEXT = " ".join(np.random.default_rng(0).choice(WORDS, LENGTH))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama: 2 layers of 2 key heads."""
    folder = tmp_path_factory.mktemp("budget") / "llama"
    small_llama().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_screen_begins_with_the_dearest_key_head_and_maps_all(llama: Path, width: int) -> None:
    run = attn("budget", TEXT, "-m", llama, terminal=True, env={"COLUMNS": str(width), "NO_COLOR": "1"})
    assert run.code == 0
    assert run.columns <= width
    heads = attn("budget", TEXT, "-m", llama, "--json").json["result"]["heads"]
    dearest = max(heads, key=lambda head: head["bits"])
    text = run.text.replace("\n", " ")
    assert f"{dearest['layer']}.{dearest['key_head']} ({dearest['bits']:.3f}" in text
    assert "121 tokens, the last 16 scored" in text


def test_data_has_every_key_head(llama: Path, tmp_path: Path) -> None:
    run = attn("budget", TEXT, "-m", llama, "--window", "8", "--first", "2", "--json")
    hold(run, "budget")
    result = run.json["result"]
    assert [(head["layer"], head["key_head"]) for head in result["heads"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert (result["window"], result["first"], result["run_mode"]) == (8, 2, "cache")
    assert all(0 < head["weight_behind"] < 1 and head["keys"] == LENGTH + 1 for head in result["heads"])
    table = attn("budget", TEXT, "-m", llama, "--window", "8", "--first", "2", "-f", "csv").lines
    assert table[0] == "layer,key_head,bits,weight_behind,keys"
    assert [float(line.split(",")[2]) for line in table[1:]] == [head["bits"] for head in result["heads"]]
    assert attn("budget", TEXT, "-m", llama, "--window", "8", "--first", "2", "-o", tmp_path / "a.npz").code == 0
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["bits"].tolist() == [head["bits"] for head in result["heads"]]


def test_layers_are_chosen(llama: Path) -> None:
    heads = attn("budget", TEXT, "-m", llama, "-l", "1", "--json").json["result"]["heads"]
    assert {head["layer"] for head in heads} == {1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-m", "toy"), "caches nothing"),
        (("-H", "0.1"), "--head chooses query heads"),
        (("-l", "9"), "there is no layer 9"),
        (("--window", "120"), "hides no key"),
        (("--scored", "200"), "too few to score 200"),
        (("--image", "x.png"), "priced on a text"),
    ],
)
def test_wrong_use_is_one_line(llama: Path, options: tuple[str, ...], words: str) -> None:
    refused(attn("budget", TEXT, "-m", llama, *options), 2, words)
