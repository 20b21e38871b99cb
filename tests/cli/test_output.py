"""The same answer in every format: same names and numbers, whole files, rows that are rows."""

import csv
import io
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from attn_cli import Matrix, MatrixOf, Selection, open_source, reduce
from tests.program import attn, refused, strict_json

TEXT = "the bank of the river"
SUFFIXES = {".json": b"{", ".jsonl": b"{", ".ndjson": b"{", ".csv": b"layer,", ".tsv": b"layer\t", ".npz": b"PK",
            ".html": b"<!DOCTYPE", ".htm": b"<!DOCTYPE", ".txt": b"the bank"}  # fmt: skip


def library() -> Matrix:
    source = open_source("toy")
    found: list[Matrix] = []
    prompts = source.read([TEXT])
    source.each(
        prompts,
        Selection(),
        lambda call: found.append(reduce(call, MatrixOf(kinds=("weights", "scores"))).part(Matrix)),
    )
    return found[0]


def npz(data: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return dict(file)


def table(data: bytes, delimiter: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode()), delimiter=delimiter))


def test_json_npz_csv_tsv_and_jsonl_hold_the_librarys_numbers() -> None:
    whole = library()
    expected = {"weights": whole.weights, "scores": whole.scores}

    arrays = npz(attn("matrix", TEXT, "-f", "npz").bytes)
    shown = attn("matrix", TEXT, "--json").json["tables"]["matrices"][0]
    rows = {
        "csv": table(attn("matrix", TEXT, "-f", "csv").bytes),
        "tsv": table(attn("matrix", TEXT, "-f", "tsv").bytes, "\t"),
        "jsonl": [strict_json(line) for line in attn("matrix", TEXT, "-f", "jsonl").bytes.splitlines()],
    }
    for name, values in expected.items():
        assert arrays[name].shape == (1, 4, 5, 5)
        np.testing.assert_array_equal(arrays[name][0], values)
        np.testing.assert_array_equal(np.array(shown[name], dtype=np.float32), values)  # as many digits as it takes
        for format in rows:
            cells = np.array([row[name.removesuffix("s")] for row in rows[format]], dtype=np.float32)
            np.testing.assert_array_equal(cells.reshape(4, 5, 5), values)
    assert arrays["tokens"].tolist() == TEXT.split()
    assert arrays["layers"].tolist() == [0]
    assert arrays["heads"].tolist() == [0, 1, 2, 3]
    assert arrays["token_ids"].shape == (5,)
    assert arrays["token_ids"][0] == arrays["token_ids"][3]
    header = ["layer", "head", "query", "query_token", "key", "key_token", "score", "weight"]
    assert all(list(rows[format][0]) == header for format in rows)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_suffix_chooses_the_format(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"a{suffix}"
    run = attn("matrix", TEXT, "-o", file)
    assert (run.code, run.bytes, run.errors) == (0, b"", "")
    assert file.read_bytes().startswith(SUFFIXES[suffix])
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_format_wins_over_the_suffix_and_json_is_short_for_it(tmp_path: Path) -> None:
    attn("matrix", TEXT, "-f", "csv", "-o", tmp_path / "a.json")
    assert (tmp_path / "a.json").read_bytes().startswith(b"layer,")
    attn("matrix", TEXT, "--json", "-o", tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes() == attn("matrix", TEXT, "-f", "json").bytes
    assert attn("matrix", TEXT, "-f", "csv", "-o", "-").bytes == attn("matrix", TEXT, "-f", "csv").bytes


@pytest.mark.parametrize("format", ["json", "npz", "html"])
def test_equal_input_gives_equal_bytes(format: str) -> None:
    first, second = (attn("inspect", TEXT, "-f", format) for _ in range(2))
    assert first.code == 0, first.errors
    assert first.bytes == second.bytes != b""


def test_a_file_gets_the_usual_rights_and_keeps_those_it_had(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        attn("top", TEXT, "-o", tmp_path / "a.json")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o640
    (tmp_path / "a.json").chmod(0o604)
    attn("top", TEXT, "-o", tmp_path / "a.json", "--force")
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o604


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.json").write_text("old")
    (tmp_path / "a.json").symlink_to(tmp_path / "real" / "a.json")
    assert attn("top", TEXT, "-o", tmp_path / "a.json", "--force").code == 0
    assert (tmp_path / "a.json").is_symlink()
    assert strict_json((tmp_path / "real" / "a.json").read_bytes())


def test_a_device_is_written_and_not_replaced() -> None:
    assert attn("top", TEXT, "--json", "-o", os.devnull).code == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)  # noqa: PTH116


def test_one_archive_holds_one_text(tmp_path: Path) -> None:
    run = attn("top", "--lines", "-o", tmp_path / "a.npz", stdin=b"river\nbank\n")
    refused(run, 2, "holds one text", "jsonl")
    assert list(tmp_path.iterdir()) == []


CAT = ("the cat sat", "-m", "toy:the-cat-sat")
COMMANDS = {
    "steps": ("compute", *CAT, "--steps"),
    "steps of a table": ("inspect", *CAT, "--steps", "-t", "cat"),
    "decode": ("compute", *CAT, "--decode"),
    "check": ("compute", "--q", "q.npy", "--expect", "q.npy"),
    "cost": ("cost", "-n", "100", "--heads", "4", "--dim", "8"),
    "scale": ("scale", "--dims", "4"),
    "layers": ("layers",),
    "nearest": ("nearest", "bank", "-k", "3"),
    "compare": ("compare", "river bank", "the bank loan", "--word", "bank"),
    "learn": ("learn", "I love apple phone", "--word", "apple", "--to", "phone", "--steps", "2"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_format_is_whole(name: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", np.ones((2, 3)))
    command = COMMANDS[name]
    found = {format: attn(*command, "-f", format) for format in ("json", "jsonl", "csv", "tsv", "npz", "html")}
    assert {run.code for run in found.values()} == {0}, found
    rows = [strict_json(line) for line in found["jsonl"].lines]
    for format, delimiter in (("csv", ","), ("tsv", "\t")):
        table = list(csv.DictReader(io.StringIO(found[format].text), delimiter=delimiter))
        assert len(table) == len(rows) > 0
        assert list(table[0]) == list(rows[0])
    assert strict_json(found["json"].bytes).keys() & {"result", "tables"}
    with np.load(io.BytesIO(found["npz"].bytes), allow_pickle=False) as file:
        assert len(file.files) >= 1
    assert found["html"].text.startswith("<!DOCTYPE html>")
    refused(attn(*command, "-f", "npy"), 2, "npy holds one array")
    refused(attn(*command, "-f", "npz", terminal=True), 2, "a terminal can't show this format", "-o FILE")
