"""attn scan: from files to Parquet."""

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from pyarrow import parquet

import attn_cli
from attn_cli.errors import InputError
from attn_cli.scans.scan import scan
from tests.program import SHORT, attn, environment, heeding_signals, program, refused
from tests.real_models import MINILM

MODEL = str(MINILM)
ROOT = Path(attn_cli.__file__).parents[1]
LINES = ["he sat on the river bank", "the bank gave him a loan", "", "water in the river"]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES) + "\n")
    return file


def rows(folder: Path, name: str) -> list[dict[str, object]]:
    return parquet.read_table(folder / f"{name}-00000.parquet").to_pylist()


def test_a_corpus_becomes_parts_and_records_without_text_are_named(lines: Path, tmp_path: Path) -> None:
    folder = tmp_path / "scan"
    done = attn("scan", str(lines), "-m", MODEL, "-o", str(folder))
    assert done.code == 0
    assert "3 documents" in done.text and "1 record could not be scanned" in done.text
    assert [(row["record"], row["reason"]) for row in rows(folder, "rejects")] == [(3, "empty")]
    assert [row["record"] for row in rows(folder, "part") if (row["layer"], row["head"]) == (0, 0)] == [1, 2, 4]


def test_an_interrupted_scan_says_in_a_line_how_far_it_came(llama: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text(("the cat sat\n" * 12 + "\n" * 500) * 90)
    with subprocess.Popen(
        program("scan", "lines.txt", "-m", llama, "-l", "0", "-o", "s1"), env=environment(PYTHONPATH=str(ROOT)),
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heeding_signals, text=True,
    ) as running:  # fmt: skip
        while len(list(tmp_path.glob("s1/part-*.parquet"))) < 2:  # of 512 lines, the first of which is counted
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        out, errors = running.communicate(timeout=SHORT)
    assert (running.returncode, out) == (130, "")
    kept = re.fullmatch(
        r"attn: interrupted: ([\d,]+) of 46,080 documents kept in s1, the same command goes on\n", errors
    )
    assert kept and int(kept[1].replace(",", "")) in range(512, 46080, 512), errors


@pytest.mark.parametrize("model", [(), ("-m", "toy:the-cat-sat")])
def test_a_word_table_is_refused(lines: Path, tmp_path: Path, model: tuple[str, ...]) -> None:
    run = attn("scan", "lines.txt", *model, "-o", "scan")
    refused(run, 2, "is a table of words", "name a model with -m")
    assert not (tmp_path / "scan").exists()
    with pytest.raises(InputError, match="runs no model"):
        scan("toy", str(lines), str(tmp_path / "scan"))


def test_a_corpus_without_a_text_ends_with_what_is_wrong(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.txt"
    nothing.write_text("\n\n \n")
    done = attn("scan", str(nothing), "-m", MODEL, "-o", str(tmp_path / "nothing"))
    assert done.code == 2 and "could be scanned: 3 empty" in done.errors
    assert "nothing/rejects-*.parquet name the records" in done.errors.replace("\n", "")
    assert len(rows(tmp_path / "nothing", "rejects")) == 3


def test_an_address_without_a_ray_is_refused_at_once(lines: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    for address, code, said in (("somewhere", 2, "is not HOST:PORT"), ("127.0.0.1:99999", 2, "is not HOST:PORT"),
                                ("127.0.0.1:1", 3, "no Ray at 127.0.0.1:1")):  # fmt: skip
        done = attn("scan", str(lines), "-m", MODEL, "-o", str(tmp_path / "scan"), "--ray", address)
        assert (done.code, said in done.errors) == (code, True)
