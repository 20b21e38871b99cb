"""attn scan: from files to Parquet."""

from pathlib import Path

import pytest

from attn_cli.cli.scan import _noting_gpus
from attn_cli.errors import InputError
from attn_cli.scans.run.scan import scan
from attn_cli.sources import open_source
from attn_cli.sources.huggingface.load import device
from tests.program import attn, refused
from tests.real_models import MINILM

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("datasketches")
from pyarrow import parquet  # noqa: E402

MODEL = str(MINILM)
LINES = ["he sat on the river bank", "the bank gave him a loan", "", "water in the river"]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES) + "\n")
    return file


def rows(folder: Path, table: str) -> list[dict[str, object]]:
    return parquet.read_table(folder / f"{table}.parquet").to_pylist()


def test_a_corpus_becomes_tables_and_records_without_text_are_named(lines: Path, tmp_path: Path) -> None:
    folder = tmp_path / "scan"
    done = attn("scan", str(lines), "-m", MODEL, "-o", str(folder))
    assert done.code == 0
    assert "3 documents" in done.text and "1 record could not be scanned" in done.text
    assert [(row["record"], row["reason"]) for row in rows(folder, "rejected")] == [(3, "empty")]
    assert next((row["layer"], row["documents"]) for row in rows(folder, "heads")) == (0, 3)


@pytest.mark.parametrize("model", [(), ("-m", "toy:the-cat-sat")])
def test_a_word_table_is_refused(lines: Path, tmp_path: Path, model: tuple[str, ...]) -> None:
    run = attn("scan", "lines.txt", *model, "-o", "scan")
    refused(run, 2, "is a table of words", "name a model with -m")
    assert not (tmp_path / "scan").exists()
    with pytest.raises(InputError, match="runs no model"):
        scan("toy", str(lines), str(tmp_path / "scan"))


def test_one_of_several_gpus_is_noted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source("toy")
    monkeypatch.setitem(source.about, "device", "cuda:0")
    for count, said in ((4, "attn: one of 4 GPUs is used; --ray auto scans on all\n"), (1, "")):
        monkeypatch.setattr(device, "devices", lambda count=count: [{"device": f"cuda:{at}"} for at in range(count)])
        assert _noting_gpus(lambda: source, quiet=False) is source
        assert capsys.readouterr().err == said


def test_the_folder_of_another_scan_is_refused_in_a_line(lines: Path, tmp_path: Path) -> None:
    folder = tmp_path / "scan"
    assert attn("scan", str(lines), "-m", MODEL, "-o", str(folder)).code == 0
    again = attn("scan", str(lines), "-m", MODEL, "-o", str(folder), "--seed", "3")
    assert again.code == 2
    assert "another --seed: 0 there, 3 now" in again.errors
    assert attn("scan", str(lines), "-m", MODEL, "-o", str(folder), "--seed", "3", "--force").code == 0
    assert attn("scan", str(lines), "-m", MODEL, "-o", str(folder), "--seed", "9" * 20).code == 2


def test_a_corpus_without_a_text_and_an_empty_sample_end_with_what_is_wrong(lines: Path, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.txt"
    nothing.write_text("\n\n \n")
    done = attn("scan", str(nothing), "-m", MODEL, "-o", str(tmp_path / "nothing"))
    assert done.code == 2 and "could be scanned: 3 empty" in done.errors
    assert "nothing/rejected.parquet names the records" in done.errors.replace("\n", "")
    assert len(rows(tmp_path / "nothing", "rejected")) == 3
    done = attn("scan", str(lines), "-m", MODEL, "-o", str(tmp_path / "sample"), "--sample", "0.001%")
    assert done.code == 2 and "--sample 0.001% has drawn no document" in done.errors


def test_utf_16_is_refused_before_a_model_is_loaded(lines: Path, tmp_path: Path) -> None:
    file = tmp_path / "wide.txt"
    file.write_text("the bank", "utf-16")
    done = attn("scan", str(lines), str(file), "-m", str(tmp_path / "no-model"), "-o", str(tmp_path / "scan"))
    assert done.code == 2 and "wide.txt is UTF-16" in done.errors


def test_an_address_without_a_ray_is_refused_at_once(lines: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    for address, code, said in (("somewhere", 2, "is not HOST:PORT"), ("127.0.0.1:99999", 2, "is not HOST:PORT"),
                                ("127.0.0.1:1", 3, "no Ray at 127.0.0.1:1")):  # fmt: skip
        done = attn("scan", str(lines), "-m", MODEL, "-o", str(tmp_path / "scan"), "--ray", address)
        assert (done.code, said in done.errors) == (code, True)
