"""Nearest words and analogies: the ones that README promises, brute force as the oracle, one line for what is wrong."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.prompt import Token
from attn_cli.sources.tables import open_table
from attn_cli.summaries.answers.nearest import nearest
from tests.program import attn, refused, strict_json
from tests.views.test_schemas import hold


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("king - man + woman", "queen"),
        ("walked - walk + go", "went"),
        ("bigger - big + small", "smaller"),
        ("uncle - man + woman", "aunt"),
        ("japan - tokyo + berlin", "germany"),
        ("King −Man +WOMAN", "queen"),
        ("bank", "banks"),
    ],
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


def test_words_without_signs_are_compared() -> None:
    table = open_table()
    units = table.vectors.astype(np.float64) / np.linalg.norm(table.vectors.astype(np.float64), axis=1, keepdims=True)
    found = attn("nearest", "apple phone fruit", "--json").json["tables"]["pairs"]
    rows = {word: units[table.words.index(word)] for word in ("apple", "phone", "fruit")}
    assert [(pair["word"], pair["other_word"]) for pair in found] == [*itertools.combinations(rows, 2)]
    cosines = [one @ other for one, other in itertools.combinations(rows.values(), 2)]
    assert [pair["cosine"] for pair in found] == pytest.approx(cosines, abs=1e-12)


LINES = b"\xef\xbb\xbfbank\r\n\nking - man + woman\n\xff\nzzqqy\nking -"


def test_every_line_is_a_question_and_a_bad_one_stops_nothing(tmp_path: Path) -> None:
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
    assert attn("nearest", "--lines", "bank\nbig\n").text.count("is nearest: cosine") == 2
    assert attn("nearest", "--lines", "-f", "npz", "-o", tmp_path / "a.npz", stdin=LINES).code == 2
    refused(attn("nearest", "--lines", stdin=b""), 2, "no text")


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
