"""attn learn: apple learns to attend to phone and not to fruit, and what was learned can be used."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from tests.program import Run, attn, refused
from tests.views.test_schemas import hold

LOVE, FRUIT = "I love apple phone", "an apple phone is no fruit"


def learned(*arguments: str) -> Run:
    return attn("learn", *arguments, "--word", "apple", "--to", "phone", "--json")


def test_apple_turns_to_phone_and_away_from_fruit() -> None:
    run = learned(LOVE, FRUIT)
    hold(run, "learn")
    tables = run.json["tables"]
    losses = [row["loss"] for row in tables["losses"]]
    assert len(losses) == 101
    assert all(b < a for a, b in itertools.pairwise(losses))
    assert losses[-1] < 0.01
    fruit = tables["tokens"][-1]
    assert fruit["token"] == "fruit" and fruit["weight_before"] > 0.1 > 0.01 > fruit["weight_after"]
    by_text: dict[tuple[int, int], list[tuple[float, bool]]] = {}
    for row in tables["weights"]:
        by_text.setdefault((row["step"], row["context"]), []).append((row["weight"], row["target"]))
    assert all(sum(weight for weight, _ in rows) == pytest.approx(1) for rows in by_text.values())
    on_target = {key: sum(weight for weight, target in rows if target) for key, rows in by_text.items()}
    assert all(on_target[0, text] < 0.2 and on_target[100, text] > 0.99 for text in (1, 2))
    stage = tables["stages"][-1]
    assert stage["target_weight"] == pytest.approx((on_target[100, 1] + on_target[100, 2]) / 2)
    loss = np.mean([-np.log(on_target[100, text]) for text in (1, 2)])
    assert stage["loss"] == pytest.approx(loss, rel=0.1)  # the log of a mean over heads is not the mean of logs


def test_before_is_what_the_table_says() -> None:
    weights = [row["weight_before"] for row in learned(LOVE).json["tables"]["tokens"]]
    table = attn("matrix", LOVE, "--token", "apple", "--mean", "--json").json["tables"]["matrices"][0]["weights"][0]
    assert np.allclose(weights, table, atol=1e-6)


def test_what_was_learned_is_kept_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert attn("learn", LOVE, "-w", "apple", "--to", "phone", "-o", "learned.npz").code == 0
    with np.load("learned.npz") as file:
        assert file["wq"].shape == file["wk"].shape == (64, 64)
        assert file["table"].tolist() == ["toy:minilm"]
        assert file["losses.loss"].shape == (101,)
        after = file["tokens.weight_after"]
    used = attn("matrix", LOVE, "-t", "apple", "--mean", "-m", "learned.npz", "--json").json
    assert np.allclose(used["tables"]["matrices"][0]["weights"][0], after, atol=1e-6)
    assert used["about"]["model"] == "learned.npz"
    computed = attn("compute", LOVE, "-m", "learned.npz", "--json").json["matrices"]["weights"]
    assert np.allclose(np.mean(computed, axis=0)[LOVE.split().index("apple")], after, atol=1e-6)
    new = attn("top", "her new apple phone", "-t", "apple", "-k", "1", "--mean", "-m", "learned.npz", "--json")
    assert [(key["key_token"], key["weight"] > 0.9) for key in new.json["tables"]["top"]] == [("phone", True)]
    for command in (["inspect", LOVE], ["heads", LOVE], ["plane", LOVE], ["compare", LOVE, FRUIT, "-w", "apple"]):
        shown = attn(*command, "-m", "learned.npz")
        assert (shown.code, "learned.npz (word vectors)" in shown.text) == (0, True)
    assert attn("learn", LOVE, "-w", "apple", "--to", "phone", "-f", "npz").bytes == Path("learned.npz").read_bytes()


def test_what_was_learned_names_the_table_wherever_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("apple 0.1 0.3\nphone 0.5 -0.2\nlove 0.2 0.7\n")
    asked = "apple phone love", "-w", "apple", "--to", "phone"
    assert attn("learn", *asked, "-m", "words.txt", "-o", "one.npz").code == 0
    assert attn("learn", *asked, "-m", "one.npz", "-o", "two.npz").code == 0  # from the start, of the same table
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    one, two = (attn("matrix", asked[0], "-m", f"../{name}.npz", "--json").json["tables"]["matrices"][0]["weights"]
                for name in ("one", "two"))  # fmt: skip
    assert one == two
    with np.load("../one.npz") as file:
        x = np.array([[0.1, 0.3], [0.5, -0.2], [0.2, 0.7]])
        scores = x @ file["wq"] @ (x @ file["wk"]).T / np.sqrt(2)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert np.allclose(one, weights, atol=1e-6)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"wq": np.eye(3)}, "wq has shape (3, 3), and the vectors of minilm have 64 numbers"),
        ({"wk": np.ones((64, 4))}, "wk has shape (64, 4)"),
        ({"table": np.array(["gpt2"])}, "gpt2 is not a table"),
        ({"table": np.array(["learned.npz"])}, "is not a table of words"),
        ({"table": np.array(["toy", "toy"])}, "table is not one name"),
        ({"table": np.eye(2)}, "table is not one name"),
    ],
)
def test_a_file_that_was_not_learned_so_is_refused(
    changed: dict[str, np.ndarray], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("learned.npz", **{"wq": np.eye(64), "wk": np.eye(64), "table": np.array(["toy:minilm"])} | changed)
    refused(attn("inspect", "river", "-m", "learned.npz"), 2, words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["I love apple", "-w", "apple", "--to", "phone"], "no 'phone' in 'I love apple'"),
        ([LOVE, "-w", "apple"], "Missing option '--to'"),
        ([LOVE, "-w", "apple", "--to", "phone", "-m", "gpt2"], "gpt2 is not a table"),
    ],
)
def test_bad_questions_are_refused(arguments: list[str], words: str) -> None:
    refused(attn("learn", *arguments), 2, words)
