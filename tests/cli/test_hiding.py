"""--hide: rows and keys are left out, no number changes unasked, what is hidden is said."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.program import Run, attn, refused
from tests.real_models import MINILM

MODEL = MINILM
SENTENCE = "he sat on the river bank"


def minilm(command: str, *options: object) -> Run:
    return attn(command, SENTENCE, "-m", MODEL, *options)


def rows_of(run: Run) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(run.text)))


@pytest.mark.parametrize("command", ["matrix", "top"])
def test_special_tokens_are_gone_and_their_weight_is_said(command: str) -> None:
    options = ("-H", "3.5")
    run = minilm(command, *options, "--hide", "special")
    assert "[CLS]" in minilm(command, *options).text
    assert "[CLS]" not in run.text and "[SEP]" not in run.text
    assert "5 river" in run.text and "6 bank" in run.text  # the numbers that they have among all tokens
    said = re.search(r"2 special tokens hidden: (\d+)% of the weight$", run.errors.strip())
    assert said and int(said[1]) > 50


def test_the_overview_without_the_first_key() -> None:
    plain, hidden = minilm("inspect", "--json"), minilm("inspect", "--json", "--hide", "0")

    def received(run: Run) -> dict[tuple[int, int, str], float]:
        rows = json.loads(run.text)["tables"]["received"]
        return {(row["layer"], row["head"], row["key_token"]): row["received_share"] for row in rows}

    of_all, left = received(plain), received(hidden)
    total = {token: sum(share for (*_, key), share in of_all.items() if key == token) / 72 for *_, token in of_all}
    assert {token: round(share, 3) for token, share in total.items()}.items() >= {
        "[CLS]": 0.593, "[SEP]": 0.069, "sat": 0.065, "river": 0.063
    }.items()  # fmt: skip
    assert left == pytest.approx({key: share for key, share in of_all.items() if key[2] != "[CLS]"}, abs=1e-6)
    assert hidden.errors == "attn: 0 [CLS] hidden: 59% of the weight\n"


def test_data_keeps_the_weights() -> None:
    every = {
        (row["query"], row["key"]): row["weight"] for row in rows_of(minilm("top", "-H", "4.5", "-k", 9, "-f", "csv"))
    }
    rows = rows_of(minilm("top", "-H", "4.5", "-k", 9, "-f", "csv", "--hide", "sink"))
    assert {row["key_token"] for row in rows} == set(SENTENCE.split())
    for query in {row["query"] for row in rows}:
        mine = [row for row in rows if row["query"] == query]
        assert all(float(row["weight"]) == pytest.approx(float(every[query, row["key"]]), abs=1e-6) for row in mine)


def test_arrays_and_tables_of_a_matrix(tmp_path: Path) -> None:
    file = tmp_path / "w.npz"
    assert minilm("matrix", "-H", "4.5", "--hide", "bank", "--hide", "0", "-o", file).code == 0
    arrays = np.load(file)
    assert arrays["hidden_keys"].tolist() == [0, 6]
    assert not arrays["weights"][..., [0, 6]].any() and np.isneginf(arrays["scores"][..., [0, 6]]).all()
    run = minilm("matrix", "-H", "4.5", "--hide", "special", "-f", "csv")
    assert {(row["query_token"], row["key_token"]) for row in rows_of(run)} == {
        (query, key) for query in SENTENCE.split() for key in SENTENCE.split()
    }
    markdown = minilm("matrix", "-H", "4.5", "--hide", "special", "-f", "md").text
    assert "CLS" not in markdown and "| 6 bank |" in markdown


def test_a_table_has_no_sink() -> None:
    none = attn("top", SENTENCE, "--hide", "sink")
    assert none.errors.startswith("attn: --hide sink hides nothing: no causal mask or special token")
    assert len(none.errors) <= 81
    assert none.text == attn("top", SENTENCE).text


def test_heads_tell_what_is_left() -> None:
    rows = json.loads(minilm("heads", "-l", 4, "--hide", "sink", "--json").text)["tables"]["heads"]
    assert all(0 < row["visible_weight"] < 0.6 and row["first_weight"] == 0 for row in rows)
    screen = minilm("heads", "-l", 4, "--hide", "special")
    (header,) = (line for line in screen.lines if line.startswith("  head"))
    assert header == "  head  left  bits  distance  previous  self  next"


@pytest.mark.parametrize("command", ["matrix", "top", "heads", "inspect"])
def test_nothing_is_said_and_nothing_changes_where_nothing_is_hidden(command: str) -> None:
    for options in (["--hide", "special"], ["--hide", "special", "-f", "csv"]):
        run = attn(command, "river bank", *options)
        assert run.errors == ""
        assert run.text == attn(command, "river bank", *options[2:]).text


def test_every_line_has_its_own_hidden_tokens() -> None:
    run = attn("top", "--lines", "-m", MODEL, "-l", 0, "--hide", "sink", stdin=b"river bank\nhe sat\n", terminal=False)
    assert run.errors.count("0 [CLS], 3 [SEP] hidden") == 2


def test_what_is_wrong() -> None:
    refused(minilm("top", "--hide", "special", "--token", "0"), 2, "--token picks special tokens")
    refused(minilm("top", "--hide", "loan"), 2, "no token 'loan' in the text")
    refused(attn("inspect", "the cat", "--steps", "--hide", "cat"), 2, "--steps shows every key: nothing can be hidden")
