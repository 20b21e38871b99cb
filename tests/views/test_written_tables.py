"""Nothing is lost in written tables: rows in Markdown and Parquet, layers that differ in shape, modules and calls."""

import io
import re
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from attn_cli.call import Place
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.views.writers import data, parquet
from attn_cli.views.writers.data import escaped
from tests.cli.test_layers import saved
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


def test_markdown_has_the_rows_of_csv_and_a_large_table_is_refused() -> None:
    (table,) = tables(attn("heads", TEXT, "-f", "md").text)
    rows = pd.read_csv(io.StringIO(attn("heads", TEXT, "-f", "csv").text))
    assert [row[table[0].index("entropy bits")] for row in table[1:]] == [
        f"{entropy:.3f}" for entropy in rows["entropy_bits"]
    ]
    refused(attn("matrix", " ".join([TEXT] * 11), "--mean", "-f", "md"), 2, "4,096 rows")


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


def summary(layer: int, module: str, call: int, *shape: int) -> Summary:
    heads, n, m = shape
    value = float(100 * layer + 10 * call + len(module))
    place = Place(layer, module, tuple(range(heads)), tuple(range(heads)), call=call)
    queries, keys = (tuple(Token(i, f"t{i}") for i in range(count)) for count in (n, m))
    return Summary(place, queries, keys, {}, (Matrix(np.full(shape, value, np.float32), None),))


def arrays(*summaries: Summary) -> dict[str, np.ndarray]:
    report = Report("matrix", {"model": "it"}, (Prompt("", ()),), summaries)
    with np.load(io.BytesIO(data.archive(data.arrays_of(report)))) as archive:
        return {name: archive[name] for name in archive.files}


def test_modules_of_one_layer_do_not_overwrite_each_other() -> None:
    found = arrays(
        summary(0, "layers.0", 0, 2, 3, 3), summary(0, "head", 0, 2, 1, 3), summary(1, "layers.1", 0, 2, 3, 3)
    )
    assert found["layer0.layers.0.weights"].max() == 8
    assert found["layer0.head.weights"].max() == 4
    assert found["layer1.weights"].max() == 108
    assert found["layer0.head.tokens"].tolist() == ["t0"]


def test_calls_of_a_module_are_stacked_by_shape() -> None:
    found = arrays(
        summary(0, "a", 0, 2, 3, 3),
        summary(0, "a", 1, 2, 3, 6),
        summary(0, "a", 2, 2, 3, 6),
        summary(1, "a", 0, 4, 3, 3),
    )
    assert found["layer0.weights"].shape == (2, 3, 3)
    assert found["layer0.call1.weights"].shape == (2, 2, 3, 6)
    assert found["layer0.call1.weights"].max() == 21
    assert found["layer1.weights"].shape == (4, 3, 3)


@pytest.mark.parametrize("name", ["siglip", "albert"])
def test_every_call_of_a_model_is_in_the_file(name: str, tmp_path: Path) -> None:
    options = saved(name, tmp_path)
    assert attn("matrix", *options, "-q", "-o", tmp_path / "all.npz").code == 0
    with np.load(tmp_path / "all.npz") as archive:
        there = sum(archive[key].size for key in archive.files if key.endswith("weights"))
    shown = attn("matrix", *options, "-q", "--json").json["tables"]["matrices"]
    assert there == sum(np.asarray(matrix["weights"]).size for matrix in shown)
    rows = attn("matrix", *options, "-q", "-f", "csv").lines
    assert len(rows) - 1 == there
    assert len({tuple(row.split(",")[: rows[0].split(",").index("score")]) for row in rows}) == len(rows)
