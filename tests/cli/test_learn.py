"""attn learn and attn nearest: what was learned can be used; the nearest words by brute force."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.prompt import Token
from attn_cli.sources.tables import open_table
from attn_cli.summaries.answers.nearest import nearest
from tests.program import Run, attn, refused, strict_json
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


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"wq": np.eye(3)}, "wq has shape (3, 3), and the vectors of minilm have 64 numbers"),
        ({"table": np.array(["gpt2"])}, "gpt2 is not a table"),
        ({"table": np.array(["toy", "toy"])}, "table is not one name"),
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


@pytest.mark.parametrize(
    ("expression", "answer"),
    [("king - man + woman", "queen"), ("walked - walk + go", "went"), ("King −Man +WOMAN", "queen"), ("bank", "banks")],
)
def test_analogies_of_the_built_in_table(expression: str, answer: str) -> None:
    run = attn("nearest", expression, "-k", "1", "--json")
    hold(run, "nearest")
    assert [found["word"] for found in run.json["tables"]["nearest"]] == [answer]


def test_the_numbers_are_cosines_with_the_sum_of_unit_vectors() -> None:
    table = open_table()
    units = table.vectors.astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    rows = [table.words.index(word) for word in ("king", "man", "woman")]
    target = units[rows[0]] - units[rows[1]] + units[rows[2]]
    cosines = units @ target / np.linalg.norm(target)
    cosines[rows] = -2
    order = np.argsort(-cosines)[:10]
    shown = attn("nearest", "king - man + woman", "--json").json["tables"]
    assert [found["id"] for found in shown["nearest"]] == order.tolist()
    assert [found["word"] for found in shown["nearest"]] == [table.words[row] for row in order]
    assert np.allclose([found["cosine"] for found in shown["nearest"]], cosines[order], atol=1e-12)


@given(data=st.data())
def test_the_answer_does_not_depend_on_the_pieces_in_which_the_table_comes(data: st.DataObject) -> None:
    count, k = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 15))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    vectors = rng.normal(size=(count, 3))
    vectors[rng.random(count) < 0.2] = 0  # a vector of zeros has cosine 0 and breaks nothing
    words = [str(row) for row in range(count)]
    cuts = sorted(data.draw(st.sets(st.integers(0, count), max_size=4)) | {0, count})
    pieces = [(a, words[a:b], vectors[a:b]) for a, b in itertools.pairwise(cuts)]
    asked, signs = rng.normal(size=(2, 3)), [1, -1]
    without = [0, count - 1]
    tokens = [Token(at, words[row], row) for at, row in enumerate(without)]
    whole = nearest(tokens, signs, asked, [(0, words, vectors)], k)
    cut = nearest(tokens, signs, asked, pieces, k)
    found, cosines = (whole["nearest"].columns.get(name, []) for name in ("word", "cosine"))
    assert cut["nearest"].columns.get("word", []) == found
    assert np.allclose(cut["nearest"].columns.get("cosine", []), cosines)
    assert len(found) == min(k, count - len(set(without)))
    assert not {words[row] for row in without} & set(found)
    assert (np.diff(cosines) <= 0).all()


LINES = b"\xef\xbb\xbfbank\r\n\nking - man + woman\n\xff\nzzqqy\nking -"


def test_every_line_is_a_question_and_a_bad_one_stops_nothing() -> None:
    run = attn("nearest", "--lines", "-k", "1", "--json", stdin=LINES)
    answers = [strict_json(line) for line in run.lines]
    assert [(a["index"], a["input"]["text"], a["tables"]["nearest"][0]["word"]) for a in answers] == [
        (0, "bank", "banks"),
        (2, "king - man + woman", "queen"),
    ]
    assert run.code == 2
    assert run.errors.splitlines() == [
        "attn: line 4: the line is not UTF-8 at byte 0",
        "attn: line 5: not in the table minilm: zzqqy",
        "attn: line 6: 'king -' ends with a sign",
        "attn: 1 blank line left out",
    ]
    rows = attn("nearest", "--lines", "bank\nbig\n", "-k", "2", "-f", "csv").lines
    assert rows[0] == "text,rank,word,id,cosine"
    assert [row.split(",")[:2] for row in rows[1:]] == [["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["king man + woman"], "no + or - before 'man'"),
        (["king -"], "ends with a sign"),
        (["king -" + " - man" * 999], "two signs before a word in 'king - - man"),
        (["a" * 9999 + " " + "b" * 9999], "not in the table"),
        (["bank - bank"], "nothing is left"),
        (["zzqqy"], "not in the table minilm: zzqqy"),
        (["king-man+woman"], "signs stand apart: king - man + woman"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words(arguments: list[str], words: str) -> None:
    refused(attn("nearest", *arguments), 2, words)
