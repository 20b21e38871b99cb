"""Tables of a scan come back as they were written, replace each other whole, and are refused where they are others'."""

from pathlib import Path
from typing import Any

import pytest

from attn_cli.errors import InputError
from attn_cli.scans.tables import TABLES, read_manifest, read_table, write_manifest, write_table

EXAMPLES: dict[str, list[Any]] = {
    "string": ["a", "b"],
    "int32": [1, None],
    "int64": [2**40, None],
    "float64": [0.5, 2.0],
    "bool_": [True, False],
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_come_back(tmp_path: Path, name: str) -> None:
    columns = {column: EXAMPLES[about.type] for column, about in TABLES[name].items()}
    write_table(tmp_path, name, columns)
    table = read_table(tmp_path, name)
    assert table.to_pydict() == columns
    write_table(tmp_path, name, {column: values[:1] for column, values in columns.items()})
    assert read_table(tmp_path, name).num_rows == 1
    assert [file.name for file in tmp_path.iterdir()] == [f"{name}.parquet"]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_not_there_has_no_rows(tmp_path: Path, name: str) -> None:
    table = read_table(tmp_path, name)
    assert table.num_rows == 0 and table.column_names == list(TABLES[name])


def test_a_manifest_comes_back_and_others_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no scan\.json"):
        read_manifest(tmp_path)
    with pytest.raises(InputError, match="no folder"):
        read_manifest(tmp_path / "nothing")
    write_manifest(tmp_path, {"documents": 3})
    assert read_manifest(tmp_path)["documents"] == 3
    (tmp_path / "scan.json").write_text('{"schema": "attn.scan_folder/99"}')
    with pytest.raises(InputError, match=r"is attn\.scan_folder/99, not"):
        read_manifest(tmp_path)
