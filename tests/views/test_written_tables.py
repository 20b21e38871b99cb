"""Tables in Markdown and Parquet: what they hold, and that nothing in a token is markup."""

import io
import re
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from attn_cli.views.writers import parquet
from attn_cli.views.writers.md import escaped
from tests.program import attn, refused

TEXT = "he sat on the river bank"


def tables(text: str) -> list[list[list[str]]]:
    """Every table's rows as cells, the header first and without the line below it."""
    blocks = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    every = [[line.strip("|\n").split(" | ") for line in block.splitlines()] for block in blocks]
    for header, rule, *rows in every:
        assert all(cell.strip() == "---" for cell in rule)
        assert {len(row) for row in rows} <= {len(header)} == {len(rule)}
    return [[[cell.strip() for cell in row] for row in (table[0], *table[2:])] for table in every]


def test_heads_are_a_table() -> None:
    (table,) = tables(attn("heads", TEXT, "-f", "md").text)
    rows = attn("heads", TEXT, "--json").json["tables"]["heads"]
    assert len(table) == 1 + len(rows)
    column = table[0].index("entropy bits")
    assert [row[column] for row in table[1:]] == [f"{row['entropy_bits']:.3f}" for row in rows]


def test_top_keys_are_a_table() -> None:
    (table,) = tables(attn("top", TEXT, "-t", "bank", "-k", "2", "--mean", "-f", "md").text)
    rows = attn("top", TEXT, "-t", "bank", "-k", "2", "--mean", "--json").json["tables"]["top"]
    assert [row[table[0].index("key token")] for row in table[1:]] == [row["key_token"] for row in rows]
    assert "### top keys over all queries" in attn("top", TEXT, "--overall", "-f", "md").text


def test_a_matrix_is_a_table_with_tokens_at_both_sides() -> None:
    (table,) = tables(attn("matrix", TEXT, "--mean", "-f", "md").text)
    labels = [f"{number} {word}" for number, word in enumerate(TEXT.split())]
    assert table[0] == ["", *labels]
    assert [row[0] for row in table[1:]] == labels
    weights = np.array([[float(cell) for cell in row[1:]] for row in table[1:]])
    assert weights.sum(axis=1) == pytest.approx(1, abs=0.01)


def test_an_overview_has_heads_received_shares_and_the_matrix() -> None:
    heads, received, matrix = tables(attn("inspect", TEXT, "-f", "md").text)
    assert (heads[0][0], received[0], len(matrix)) == ("layer", ["key", "key token", "share"], 7)


@pytest.mark.parametrize(
    "token",
    ["a|b", "a\\|b", "\\", "`", "``|`", "<b>", "</code>", "<!--", "[x](y)", "![x](y)", "**", "_a_", "~~", "$x$",
     "@name", "#12", ":smile:", "https://x.y", "www.x.y", "&lt;", "^", "{{x}}"],
)  # fmt: skip
def test_markup_in_a_token_is_inert(token: str) -> None:
    inside = escaped(token).removeprefix("<code>").removesuffix("</code>")
    left = re.sub(r"&#\d+;", "", inside)
    assert not set(left) & set("\\|`*_~<>[]&$#@:^{}")
    assert "www.x" not in left
    assert re.sub(r"&#(\d+);", lambda match: chr(int(match[1])), inside) == token


def test_hostile_tokens_keep_the_table_whole() -> None:
    for table in tables(attn("top", "a|b <b>\\| `x` | y\n|", "-f", "md", "-q").text):
        assert len(table) > 1


COMMANDS = [["top", "the cat sat"], ["heads", "the cat sat"], ["matrix", "the cat sat", "-H", "0"],
            ["matrix", "the cat sat", "-m", "toy:the-cat-sat"], ["nearest", "bank"]]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_two_readers_find_the_rows_of_csv(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert attn(*command, "-o", "x.parquet").code == 0
    csv = pd.read_csv(io.StringIO(attn(*command, "-f", "csv").text))
    for found in (duckdb.sql("select * from 'x.parquet'").df(), pd.read_parquet("x.parquet")):
        assert list(found.columns) == list(csv.columns)
        pd.testing.assert_frame_equal(found, csv, check_dtype=False, rtol=1e-12)
        assert set(found.select_dtypes("number").columns) == set(csv.select_dtypes("number").columns)


def test_many_rows_and_lines_of_texts_are_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parquet, "_ROWS", 7)
    run = attn("top", "--lines", "-o", "x.parquet", stdin=b"river bank\nthe cat sat\n")
    assert run.code == 0
    found = pd.read_parquet("x.parquet")
    assert found.groupby("text").size().tolist() == [4 * 4, 4 * 9]
    assert found["weight"].dtype == float and found["layer"].dtype == int


def test_a_terminal_and_an_installation_without_pyarrow_refuse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    refused(attn("top", "river bank", "-f", "parquet", terminal=True), 2, "a terminal can't show this format")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    refused(attn("top", "river bank", "-f", "parquet"), 3, "needs the package pyarrow", "attn-cli[scan]")
