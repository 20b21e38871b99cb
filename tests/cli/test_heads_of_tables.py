"""attn heads of word tables: sorted by a number of theirs, and by what they do."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.summaries.reducers.kinds.targets import KINDS
from attn_cli.summaries.report import Ranking
from tests.program import attn, refused, strict_json
from tests.views.test_schemas import hold

TWICE = "he sat on the river bank and he sat on the loan"


def heads(*options: str) -> list[dict[str, Any]]:
    return attn("heads", TWICE, "--json", *options).json["tables"]["heads"]


@pytest.mark.parametrize(
    ("sort", "column", "sign"),
    [
        ("entropy", "entropy_bits", 1), ("-entropy", "entropy_bits", -1), ("entropy (bits)", "entropy_bits", 1),
        ("Induction", "induction_weight", -1), ("self_weight", "self_weight", -1), ("-self", "self_weight", 1),
    ],
)  # fmt: skip
def test_the_order_is_that_of_the_column(sort: str, column: str, sign: int) -> None:
    everyone = heads()
    assert heads("--sort", sort) == sorted(everyone, key=lambda row: sign * row[column])
    assert heads("--sort", sort, "--top", "2") == heads("--sort", sort)[:2]


def test_tables_and_screens_have_the_same_order() -> None:
    order = [row["head"] for row in heads("--sort", "self", "--top", "2", "-H", "1-3")]
    asked = ("heads", TWICE, "--sort", "self", "--top", "2", "-H", "1-3")
    assert [int(line.split(",")[1]) for line in attn(*asked, "-f", "csv").lines[1:]] == order
    assert [line.split()[0] for line in attn(*asked).lines[5:7]] == [f"0.{head}" for head in order]


def test_rows_without_the_number_come_last_whichever_way() -> None:
    numbers = [float("nan"), 1.0, 3.0, float("nan"), 2.0]
    for turned in (False, True):
        ranked = Ranking("x", "x", turned).of(numbers, lambda row: row)
        assert ranked[:3] == sorted([1.0, 2.0, 3.0], reverse=turned)


BANKS = " ".join(["the bank of the river bank ."] * 8)


def test_without_a_text_random_words_of_a_table_are_read_twice() -> None:
    run = attn("heads", "--kinds", "--json")
    hold(run, "kinds")
    document = strict_json(run.bytes)
    assert document["tables"]["prompts"] == [{"seed": at, "tokens": tokens} for at, tokens in enumerate((74, 100, 122))]
    ids = [[token["id"] for token in text["tokens"]] for text in document["inputs"]]
    assert all(half[: len(half) // 2] == half[len(half) // 2 :] for half in ids)
    assert all(len(set(half)) == len(half) // 2 for half in ids)
    assert attn("heads", "--kinds", "--json").bytes == run.bytes


def test_on_a_text_every_head_has_a_row(tmp_path: Path) -> None:
    run = attn("heads", BANKS, "--kinds", "--json")
    hold(run, "kinds")
    rows = list(csv.DictReader(io.StringIO(attn("heads", BANKS, "--kinds", "-f", "csv").text)))
    assert list(rows[0])[:8] == ["layer", "head", "kv_head", "kind", "weight", "share", "baseline", "control"]
    assert {f"{kind.name}_{number}" for kind in KINDS for number in ("weight", "baseline")} <= set(rows[0])
    file = tmp_path / "kinds.npz"
    assert attn("heads", BANKS, "--kinds", "-o", str(file)).code == 0
    with np.load(file) as arrays:
        assert arrays["kind"].tolist() == [row["kind"] for row in rows]


def test_a_recording_is_judged_on_the_text_that_it_holds(tmp_path: Path) -> None:
    text = "the bank of the river " * 5
    assert attn("inspect", text, "-o", tmp_path / "x.attn").code == 0
    held, live = (attn("heads", "--kinds", *words, "--json") for words in (["-m", tmp_path / "x.attn"], [text]))
    named = [[(row["layer"], row["head"], row["kind"]) for row in run.json["tables"]["kinds"]] for run in (held, live)]
    assert named[0] == named[1] != []
    assert held.json["inputs"][0]["text"] == text


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("heads", "--kinds", "--sort", "entropy"), "--sort"),
        (("heads", "--kinds", "--pair", "a"), "--pair"),
        (("heads", "--kinds", "-m", "toy:the-cat-sat"), "too few words"),
    ],
)
def test_what_does_not_go_with_kinds_is_refused(words: tuple[str, ...], error: str) -> None:
    refused(attn(*words), 2, error)
