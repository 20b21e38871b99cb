"""attn compare and attn plane: numbers of plain NumPy before and after attention on a table; blocks of a model."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.sources.tables import open_table
from tests.media import chatting
from tests.program import attn, refused
from tests.real_models import MINILM, SMOL
from tests.views.test_schemas import hold

pytestmark = pytest.mark.usefixtures("loads_once")

RIVER, LOAN = "he sat on the river bank", "the bank gave me a loan"


def test_a_static_word_is_the_same_before_attention_and_another_after() -> None:
    run = attn("compare", "river bank", "bank loan", "--word", "bank", "--json")
    hold(run, "compare")
    shown = run.json["tables"]
    (layer,) = shown["layers"]
    assert layer["cosine_before"] == pytest.approx(1, abs=1e-12)
    assert 0.9 < layer["cosine_after"] < 0.99
    assert [prompt["text"] for prompt in run.json["inputs"]] == ["river bank", "bank loan"]


def _keys_of(tables: dict[str, list[Any]], layer: int = 0) -> list[list[Any]]:
    keys = [key for key in tables["keys"] if key["layer"] == layer]
    return [[key for key in keys if key["context"] == text] for text in (1, 2)]


def test_the_numbers_are_those_of_plain_numpy() -> None:
    table = open_table()
    tables = attn("compare", RIVER, LOAN, "-w", "bank", "--json").json["tables"]
    (layer,) = tables["layers"]
    after = []
    for text, keys in zip((RIVER, LOAN), _keys_of(tables), strict=True):
        words = text.split()
        x = table.vectors[[table.words.index(word) for word in words]].astype(np.float64)
        query = words.index("bank")
        output, weights = [], []
        for head in x.reshape(len(words), 4, 16).transpose(1, 0, 2):
            exps = np.exp(head[query] @ head.T / 4)
            weights.append(exps / exps.sum())
            output.append(weights[-1] @ head)
        z = np.concatenate(output)
        parts = [np.concatenate([w[key] * x[key, 16 * h : 16 * h + 16] for h, w in enumerate(weights)])
                 for key in range(len(words))]  # fmt: skip
        assert np.allclose([key["weight"] for key in keys], np.mean(weights, axis=0), atol=1e-6)
        assert np.allclose([key["pull"] for key in keys], [part @ z / (z @ z) for part in parts], atol=1e-6)
        after.append(z / np.linalg.norm(z))
    assert layer["cosine_after"] == pytest.approx(after[0] @ after[1], abs=1e-6)


def test_a_model_is_followed_block_by_block() -> None:
    run = attn("compare", RIVER, LOAN, "-w", "bank", "-m", MINILM, "--json")
    hold(run, "compare")
    layers = run.json["tables"]["layers"]
    assert [layer["layer"] for layer in layers] == list(range(6))
    for one, other in itertools.pairwise(layers):  # what leaves a block enters the next
        assert other["cosine_before"] == pytest.approx(one["cosine_after"], abs=1e-6)
    for layer in range(6):
        for keys in _keys_of(run.json["tables"], layer):
            assert sum(key["pull"] for key in keys) == pytest.approx(1, abs=1e-4)
    chosen = attn("compare", RIVER, LOAN, "-w", "bank", "-m", MINILM, "--json", "-l", "1,3", "-H", "0").json["tables"]
    assert [layer["layer"] for layer in chosen["layers"]] == [1, 3]
    assert chosen["layers"][1]["cosine_after"] == pytest.approx(layers[3]["cosine_after"], abs=1e-5)
    most = attn("top", RIVER, "-m", MINILM, "-l", "3", "-H", "0", "-t", "bank", "-k", "1", "--json").json["tables"][
        "top"
    ][0]
    heaviest = max(_keys_of(chosen, 3)[0], key=lambda key: key["weight"])
    assert (heaviest["key"], heaviest["weight"]) == (most["key"], pytest.approx(most["weight"], abs=1e-5))


@pytest.mark.parametrize("layers", [(), ("-l", "1")], ids=["table of blocks", "one block"])
def test_keys_that_a_causal_model_masks_are_not_listed(tmp_path: Path, layers: tuple[str, ...]) -> None:
    model = chatting(tmp_path / "llama")
    run = attn("compare", "the cat sat here", "what sat is a cat", "-w", "cat", "-m", model, *layers)
    assert run.code == 0, run.errors
    assert "later tokens are masked: it sees 3 of 6 in 1 and 6 of 7 in 2" in run.text
    shown = " ".join(run.lines[4:])  # below the texts themselves
    assert "here" not in shown and "</s>" not in shown
    assert '"the' in shown


def test_which_word_is_meant() -> None:
    def words(*arguments: str) -> list[list[int]]:
        """In each text the key whose weight is the largest, as it is the word itself."""
        each = _keys_of(attn("compare", *arguments, "--json").json["tables"])
        return [[max(of, key=lambda key: key["weight"])["key"]] for of in each]

    assert words("river bank", "bank loan") == [[1], [0]]  # the only one that both have
    assert words("river bank", "the loan", "-w", "river", "-w", "loan") == [[0], [1]]
    assert words("river bank", "the loan", "-w", "0") == [[0], [0]]
    twice = attn("compare", "bank of the bank", "bank loan", "-w", "bank")
    assert "occurs 2 times, at 0, 3" in twice.errors and "the first is taken" in twice.errors


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["river bank", "bank river"], 2, ["which word?", "all have river, bank"]),
        (["river", "loan"], 2, ["which word?", "they share no word"]),
        (["river bank", "bank loan", "-w", "moon"], 2, ["no token 'moon'"]),
        (["a b", "a c", "-w", "a", "-w", "a", "-w", "a"], 2, ["--word 3 times"]),
        (["river bank"], 2, ["one text, to compare with which?"]),
        (["river bank", "bank loan", "-l", "3"], 2, ["there is no attention layer 3"]),
        (["river bank", "bank loan", "-m", "./none"], 3, ["./none"]),
    ],
)
def test_bad_questions_are_refused(arguments: list[str], code: int, words: list[str]) -> None:
    refused(attn("compare", *arguments), code, *words)


MARY = "When Mary and John went to the store, {} gave a drink to"


def test_the_heads_that_move_names_differ_most_between_two_names() -> None:
    """By eager's own weights of the last row, half the sum of all differences."""
    texts = [MARY.format(name) for name in ("John", "Mary")]
    heads = attn("compare", *texts, "-w", "-1", "-m", SMOL, "--json", "-q").json["tables"]["heads"]
    assert [(row["layer"], row["head"]) for row in heads[:3]] == [(24, 4), (22, 7), (21, 8)]
    assert [row["change"] for row in heads[:3]] == pytest.approx([0.826, 0.639, 0.639], abs=5e-4)
    assert len(heads) == 270
    texts = [f"The nurse told the pilot that {word}" for word in ("she", "he")]
    same, nearer = (attn("compare", *texts, *words, "-m", SMOL).text for words in (["-w", "nurse"], ["-w", "-1"]))
    assert '"nurse" is identical in both: the texts differ only after it' in same and "moves most" not in same
    assert '"she" and "he": 0.47 alike going in, 0.99 coming out\n' in nearer


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
    shares = [axis["variance_share"] for axis in run.json["tables"]["axes"]]
    assert np.allclose(shares, (sizes[:2] ** 2) / (sizes**2).sum(), atol=1e-6)
    assert [point["token"] for point in points] == (RIVER + " " + LOAN).split()
    one, other = (point for point in points if point["token"] == "bank")
    assert one["before_x"] == other["before_x"] and one["after_x"] != other["after_x"]


def test_a_model_and_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert '\nsinks are left out: "he" 0, with vectors' in attn("plane", RIVER, "-m", SMOL).text
    run = attn("plane", RIVER, "-m", MINILM, "-l", "1-3", "--unit", "--json")
    hold(run, "plane")
    assert run.json["tables"]["run"] == [{"first_layer": 1, "last_layer": 3, "unit": True}]
    assert [point["token"] for point in run.json["tables"]["points"]] == RIVER.split()  # no [CLS], no [SEP]
    assert attn("plane", RIVER, "-o", "p.npz").code == 0
    with np.load("p.npz") as file:
        before = np.stack([file["before_x"], file["before_y"]], axis=1)
        x = open_table().vectors[[open_table().words.index(word) for word in RIVER.split()]]
        assert np.allclose((x - file["centre"]) @ file["axes"].T, before, atol=1e-5)


def test_bad_questions_of_planes_are_refused() -> None:
    refused(attn("plane"), 2, "Missing argument")
    refused(attn("plane", "zzqqy"), 2, "no word of the text")
    refused(attn("plane", "river", "-l", "2"), 2, "there is no attention layer 2")
