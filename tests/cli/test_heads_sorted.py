"""attn heads --sort and --top: the same heads, in the order of one number of theirs."""

from typing import Any

import pytest

from attn_cli.summaries.report import Ranking
from tests.program import attn

TEXT = "he sat on the river bank and he sat on the loan"


def heads(*options: str) -> list[dict[str, Any]]:
    return attn("heads", TEXT, "--json", *options).json["tables"]["heads"]


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
    assert [line.split()[0] for line in screen[5:8]] == [f"0.{head}" for head in order]


def test_rows_without_the_number_come_last_whichever_way() -> None:
    numbers = [float("nan"), 1.0, 3.0, float("nan"), 2.0]
    for turned in (False, True):
        ranked = Ranking("x", "x", turned).of(numbers, lambda row: row)
        assert ranked[:3] == sorted([1.0, 2.0, 3.0], reverse=turned)
