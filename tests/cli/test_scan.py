"""attn scan: from files to Parquet, on the built-in table."""

from pathlib import Path

import pytest

from attn_cli.cli.scan import _noting_gpus
from attn_cli.sources import open_source
from attn_cli.sources.huggingface.load import device
from tests.program import attn

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("datasketches")
from pyarrow import parquet  # noqa: E402

LINES = ["he sat on the river bank", "the bank gave him a loan", "xyzzy", "", "water in the river"]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES) + "\n")
    return file


def rows(folder: Path, table: str) -> list[dict[str, object]]:
    return parquet.read_table(folder / f"{table}.parquet").to_pylist()


def test_a_corpus_becomes_tables_and_records_without_text_are_named(lines: Path, tmp_path: Path) -> None:
    folder = tmp_path / "scan"
    done = attn("scan", str(lines), "-o", str(folder))
    assert done.code == 0
    assert "3 documents" in done.text and "2 records could not be scanned" in done.text
    assert [(row["record"], row["reason"]) for row in rows(folder, "poison")] == [(3, "no token"), (4, "empty")]
    assert next((row["layer"], row["documents"]) for row in rows(folder, "heads")) == (0, 3)


def test_one_of_several_gpus_is_noted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source("toy")
    monkeypatch.setitem(source.about, "device", "cuda:0")
    for count, said in ((4, "attn: one of 4 GPUs is used; --ray auto scans on all\n"), (1, "")):
        monkeypatch.setattr(device, "devices", lambda count=count: [{"device": f"cuda:{at}"} for at in range(count)])
        assert _noting_gpus(lambda: source, quiet=False) is source
        assert capsys.readouterr().err == said


def test_the_folder_of_another_scan_is_refused_in_a_line(lines: Path, tmp_path: Path) -> None:
    folder = tmp_path / "scan"
    assert attn("scan", str(lines), "-o", str(folder)).code == 0
    again = attn("scan", str(lines), "-o", str(folder), "--seed", "3")
    assert again.code == 2
    assert "another --seed: 0 there, 3 now" in again.errors
    assert attn("scan", str(lines), "-o", str(folder), "--seed", "3", "--force").code == 0
