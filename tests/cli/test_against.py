"""--against and --against-model: two runs held side by side, against dense weights of both."""

import csv
import io
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import pytest
import torch

from attn_cli.sources import memory
from tests.program import Run, attn, refused
from tests.real_models import MINILM
from tests.sources.huggingface.folders import edited_weights, linked
from tests.views.test_hostile import HOSTILE, harmless
from tests.views.test_schemas import hold

RIVER, SAVINGS = "he sat on the river bank", "he sat in a savings bank"


@pytest.fixture(scope="module")
def folder() -> Path:
    return MINILM


def eager(folder: Path, text: str) -> tuple[list[int], np.ndarray]:
    """Token ids, and eager's own weights `[layers, h, n, n]`."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = (kind.from_pretrained(folder) for kind in (AutoTokenizer, AutoModel))
    model.set_attn_implementation("eager")
    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        weights = torch.stack(model(**inputs, output_attentions=True).attentions)[:, 0].double().numpy()
    return inputs["input_ids"][0].tolist(), weights


def test_every_cell_of_minilm_is_the_difference_of_eagers_weights(folder: Path) -> None:
    """Aligned by difflib: equal blocks, and runs of equal length between them."""
    text, other = RIVER, "he sat in a big savings bank of the town"
    (ids, a), (other_ids, b) = eager(folder, text), eager(folder, other)
    partner: dict[int, int] = {}
    for _, i, stop, j, other_stop in SequenceMatcher(None, ids, other_ids, autojunk=False).get_opcodes():
        if stop - i == other_stop - j:
            partner |= dict(zip(range(i, stop), range(j, other_stop), strict=True))
    run = attn("matrix", text, "--against", other, "-m", folder, "--json", "--quiet")
    hold(run, "change_matrix")
    for layer, part in enumerate(run.json["result"]["change_matrices"]):
        assert dict(zip(part["queries"], part["other_queries"], strict=True)) == partner
        changes = np.array(part["changes"])
        for row, query in enumerate(part["queries"]):
            for column, (key, other_key) in enumerate(zip(part["keys"], part["other_keys"], strict=True)):
                assert key is None or partner.get(key) == other_key
                mine = 0.0 if key is None else a[layer, :, query, key]
                theirs = 0.0 if other_key is None else b[layer, :, partner[query], other_key]
                np.testing.assert_allclose(changes[:, row, column], theirs - mine, atol=1e-5)


def rows_of(run: Run) -> list[dict[str, str]]:
    assert run.code == 0, run.errors
    return list(csv.DictReader(io.StringIO(run.text)))


def test_rows_of_the_keys_that_change_most(folder: Path) -> None:
    options = ("-m", folder, "-H", "5.1", "-t", "bank", "-k", "3", "-f", "csv", "-q")
    rows = rows_of(attn("top", RIVER, "--against", "he sat on the savings bank of the town", *options))
    assert list(rows[0]) == [
        "layer", "head", "query", "query_token", "key", "key_token", "other_key", "other_key_token", "weight",
        "other_weight", "change",
    ]  # fmt: skip
    assert [(row["key_token"], row["other_key_token"]) for row in rows[:2]] == [("[CLS]",) * 2, ("river", "savings")]
    alone = next(row for row in rows if not row["key"])
    assert (alone["key_token"], alone["weight"], alone["other_key_token"]) == ("", "0.0", "town")
    turned = rows_of(attn("top", "he sat on the savings bank of the town", "--against", RIVER, *options))
    for row, back in zip(rows, turned, strict=True):
        assert float(row["change"]) == pytest.approx(-float(back["change"]), abs=1e-6)
        assert (row["key"], row["other_key"]) == (back["other_key"], back["key"])


def test_heads_are_sorted_by_what_changes(folder: Path) -> None:
    run = attn("heads", RIVER, "--against", SAVINGS, "-m", folder, "--json", "--quiet")
    hold(run, "head_changes")
    changes = [row["change"] for row in run.json["result"]["head_changes"]]
    assert len(changes) == 72 and changes == sorted(changes, reverse=True) and changes[0] > 0.3
    assert run.json["other_input"]["text"] == SAVINGS
    last = rows_of(
        attn("heads", RIVER, "--against", SAVINGS, "-m", folder, "--sort", "last", "--top", "2", "-f", "csv")
    )
    every = [row["last_change"] for row in run.json["result"]["head_changes"]]
    assert [float(row["last_change"]) for row in last] == pytest.approx(sorted(every, reverse=True)[:2], abs=1e-6)


def test_a_screen_shows_the_first_heads_of_many(folder: Path) -> None:
    lines = attn("heads", RIVER, "--against", SAVINGS, "-m", folder, "-q").lines
    assert "12 of 72 heads by change, largest first" in lines and "--top 72 lists all" in lines
    assert len(lines) <= 24
    assert len(attn("heads", RIVER, "--against", SAVINGS, "-m", folder, "-q", "--top", "72").lines) > 72


def test_a_text_against_itself_is_nothing(folder: Path) -> None:
    for row in rows_of(attn("heads", RIVER, "--against", RIVER, "-m", folder, "-f", "csv")):
        assert (float(row["change"]), float(row["last_change"])) == (0, 0)
    assert not any(float(row["change"]) for row in rows_of(attn("matrix", RIVER, "--against", RIVER, "-f", "csv")))


def test_in_another_precision_next_to_nothing_changes(folder: Path) -> None:
    run = attn("heads", RIVER, "--against-dtype", "bfloat16", "-m", folder, "--json")
    hold(run, "head_changes")
    assert run.json["other_source"]["dtype"] == "bfloat16"
    changes = [row["change"] for row in run.json["result"]["head_changes"]]
    assert 0 < np.mean(changes) < 0.01
    picked = attn("top", RIVER, "--against-dtype", "bfloat16", "-m", folder, "-t", "bank", "-l", "2", "--json")
    hold(picked, "changed_keys")


def test_another_model_is_held_against_this_one_head_by_head(folder: Path, tmp_path: Path) -> None:
    other = linked(folder, tmp_path / "other")
    edited_weights(other, lambda tensors: tensors["encoder.layer.2.attention.self.query.weight"].mul_(1.5))
    runs = [attn("matrix", RIVER, "-m", model, "--weights", "--json").json["result"] for model in (folder, other)]
    one, another = (np.array([part["weights"] for part in run["matrices"]]) for run in runs)
    expected = np.abs(another - one).sum(-1).mean(-1) / 2  # [layers, h]
    run = attn("heads", RIVER, "-m", folder, "--against-model", other, "--json")
    hold(run, "head_changes")
    assert run.json["other_source"]["model"] == str(other)
    for row in run.json["result"]["head_changes"]:
        assert row["change"] == pytest.approx(expected[row["layer"], row["head"]], abs=1e-5)
    assert not expected[:2].any() and expected[2].max() > 0.05
    rows = rows_of(
        attn("top", RIVER, "-m", folder, "--against-model", other, "-t", "bank", "-l", "2", "-k", "8", "-f", "csv")
    )
    for row in rows:
        head, key = int(row["head"]), int(row["key"])
        assert float(row["weight"]) == pytest.approx(one[2, head, 6, key], abs=1e-6)
        assert float(row["other_weight"]) == pytest.approx(another[2, head, 6, key], abs=1e-6)


def test_queries_and_keys_that_do_not_fit_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept until the other model has run; rows that were picked take less."""
    monkeypatch.setattr(memory, "free_memory", lambda: 10_000)
    options = ("-m", folder, "--against-dtype", "bfloat16")
    refused(attn("heads", RIVER, *options), 4, "queries and keys of 6 layers", "--token")
    assert attn("top", RIVER, *options, "-t", "bank", "-l", "2", "--json").code == 0


def test_words(folder: Path) -> None:
    options = ("-m", folder, "--words", "--json", "-q")
    run = attn("heads", "an unbelievably old bank", "--against", "an unbelievable bank", *options)
    hold(run, "head_changes")
    words = [token["text"] for token in run.json["input"]["tokens"]]
    assert words == ["[CLS]", "an", "unbelievably", "old", "bank", "[SEP]"]
    keys = attn("top", "an unbelievably old bank", "--against", "an unbelievable bank", "-t", "bank", *options)
    tokens = {row["key_token"] for row in keys.json["result"]["changed_keys"]}
    assert "unbelievably" in tokens


def test_every_line_against_one_text() -> None:
    run = attn("top", "--lines", "--against", SAVINGS, "--json", "-q", stdin=b"river bank\nhe sat\n")
    hold(run, "changed_keys")
    assert len(run.lines) == 2


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("command", ["top", "matrix", "heads"])
def test_both_texts_are_shown_harmless(command: str, text: str) -> None:
    run = attn(command, "river bank", "--against", text)
    assert run.code == 0
    harmless(run.text)
    harmless(run.errors)


def test_arrays(tmp_path: Path) -> None:
    assert attn("matrix", RIVER, "--against", "he sat on a bank", "-o", tmp_path / "m.npz", "-q").code == 0
    arrays = np.load(tmp_path / "m.npz")
    assert arrays["changes"].shape == (1, 4, len(arrays["queries"]), len(arrays["keys"]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["top", RIVER, "--against", SAVINGS, "--against-model", "toy"], "--against and --against-model at once"),
        (["top", RIVER, "--against", SAVINGS, "--overall"], "--against and --overall at once"),
        (["top", RIVER, "--against", SAVINGS, "--why"], "--why and --against at once"),
        (["matrix", RIVER, "--against", SAVINGS, "--scores"], "--against and --scores at once"),
        (["matrix", RIVER, "--against", SAVINGS, "--no-special"], "--against and --no-special at once"),
        (["heads", RIVER, "--against", SAVINGS, "--sort", "entropy"], "one of change, last"),
        (["top", "he sat on", "--against", "he sat", "-t", "on"], "no partner"),
        (["top", RIVER, "--against", ""], "the text is empty"),
        (["heads", "cat sat", "--against-model", "toy:the-cat-sat"], "compare models of one shape"),
    ],
)
def test_misuse(arguments: list[str], words: str) -> None:
    refused(attn(*arguments), 2, words)


def test_a_model_that_reads_other_tokens_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, words in (("a", "he sat on"), ("b", "sat on he")):
        lines = [f"{word} {' '.join(map(str, rng.normal(size=4)))}" for word in words.split()]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    refused(attn("top", "he sat", "-m", tmp_path / "a.txt", "--against-model", tmp_path / "b.txt"), 2, "differently")
