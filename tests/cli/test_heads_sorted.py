"""attn heads --sort and --top: the same heads, in the order of one number of theirs."""

from typing import Any

import pytest

from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.reducers.heads.statistics import STATISTICS
from tests.cli.test_one_screen import SCREEN, SMOL
from tests.program import attn

TEXT = "he sat on the river bank and he sat on the loan"


def heads(*options: str) -> list[dict[str, Any]]:
    return attn("heads", TEXT, "--json", *options).json["result"]["heads"]


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
    order = [row["head"] for row in heads("--sort", "self", "--top", "3")]
    table = attn("heads", TEXT, "--sort", "self", "--top", "3", "-f", "csv").lines
    assert [int(line.split(",")[1]) for line in table[1:]] == order
    markdown = attn("heads", TEXT, "--sort", "self", "--top", "3", "-f", "md").lines
    assert [int(line.split("|")[2]) for line in markdown if line.startswith("| 0 |")] == order
    screen = attn("heads", TEXT, "--sort", "self", "--top", "3").lines
    assert screen[3] == "3 of 4 heads by self, largest first"
    assert [int(line.split()[1]) for line in screen[5:8]] == order


@pytest.mark.usefixtures("loads_once")
def test_heads_on_the_first_token_read_little_where_its_value_is_short() -> None:
    sorted_by_first = attn("heads", TEXT, "-m", SMOL, "--sort", "first", "-k", "5", terminal=True, env=SCREEN)
    said = " ".join(sorted_by_first.text.split())
    kinds = attn("heads", TEXT, "-m", SMOL, "--kinds", "--json").json["result"]["sinks"]
    (first,) = (sink for sink in kinds if sink["key"] == 0)
    assert first["value_norm"] < 0.5
    heads = attn("heads", TEXT, "-m", SMOL, "--json").json["result"]["heads"]
    half = sum(head["first_weight"] >= 0.5 for head in heads)
    mean = sum(head["first_weight"] for head in heads) / len(heads)
    over = f"mean over all rows, {mean:.0%} in all heads together"
    assert f"{half} of 270 heads give the first token, 0 he, half of their weight or more ({over})" in said
    assert "the first 5 " in said
    whole = "the attention of rows that see 8 keys or more"
    rests = f"{first['weight']:.0%} of {whole} rests on 0 he, a sink of {round(270 * first['heads'])} heads"
    assert f"{rests} of any kind; its value is short ({first['value_norm']:.2f} of the median value's length" in said
    for sink in kinds:
        if sink["key"]:
            assert f"{sink['weight']:.0%} rests on {sink['key']} " in said
            read = f"and read: its value's length is {sink['value_norm']:.2f} of the median"
            assert (read in said) == (sink["value_norm"] >= 0.5)
        assert f"weight times length {sink['weight'] * sink['value_norm']:.2f}" in said


def test_the_sorted_column_stays_on_a_narrow_screen_and_where_it_says_nothing() -> None:
    narrow = attn("heads", TEXT, "--sort", "next", env={"COLUMNS": "40"}).text
    (header,) = (line for line in narrow.splitlines() if line.startswith("layer"))
    assert "next" in header and "distance" not in header
    assert "sink" in attn("heads", TEXT, "--sort", "sink").text
    assert "no head has a number for induction here" in attn("heads", "river bank", "--sort", "induction").text


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (["--sort", "inductoin"], "--sort 'inductoin' is not a column of this table: induction?", "columns: entropy, "),
        (["--top", "3"], "--top needs --sort", "add --sort COLUMN: entropy, "),
        (["--sort", "self", "-o", "x.npz"], "--sort is for tables: npz holds each head in its place", "leave out"),
    ],
)
def test_what_can_t_be_sorted(options: list[str], message: str, hint: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = attn("heads", TEXT, *options)
    assert run.code == 2
    first, second = run.errors.splitlines()
    assert first == f"attn: {message}"
    assert hint in second


def test_rows_without_the_number_come_last_whichever_way() -> None:
    numbers = [float("nan"), 1.0, 3.0, float("nan"), 2.0]
    for turned in (False, True):
        ranked = Ranking("x", "x", turned).of(numbers, lambda row: row)
        assert ranked[:3] == sorted([1.0, 2.0, 3.0], reverse=turned)


def test_every_statistic_has_a_short_name_of_its_own() -> None:
    assert len({each.heading.split()[0] for each in STATISTICS}) == len(STATISTICS)


def test_a_mean_of_some_rows_says_how_many_and_what_uniform_attention_gives() -> None:
    """On two rows a head that rests on the key after a repeated token passes for an induction head."""
    run = attn("heads", "the bank of the river bank", "--sort", "induction", env={"COLUMNS": "120"})
    assert "4 heads by induction, largest first · mean of 2 rows · baseline 0.17" in run.lines
    assert "mean of" not in attn("heads", "the bank of the river bank", "--sort", "entropy").text


@pytest.mark.usefixtures("loads_once")
def test_an_order_begins_with_what_its_first_heads_do() -> None:
    words = ("heads", "The river bank was steep and the bank was closed", "-m", SMOL, "--sort", "entropy")
    run = attn(*words, terminal=True, env=SCREEN | {"COLUMNS": "200"})
    first = [head["first_weight"] for head in attn(*words, "--json").json["result"]["heads"]][:15]
    said = " ".join(run.text.split())
    assert "heads give the first token, 0 The, half of their weight or more" in said
    assert f"the first 15 {min(first):.2f} or more" in said
