"""-o x.parquet: the rows of csv, read by a database and by data frames, each column in its type."""

import io
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from attn_cli.views.writers import parquet
from tests.program import attn, refused

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
