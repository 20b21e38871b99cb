"""Results come in every format: whole files of the right kind, and rows that are rows."""

import csv
import io

import numpy as np
import pytest

from tests.program import attn, refused, strict_json

CAT = ("the cat sat", "-m", "toy:the-cat-sat")
COMMANDS = {
    "steps": ("compute", *CAT, "--steps"),
    "steps of a table": ("inspect", *CAT, "--steps", "-t", "cat"),
    "decode": ("compute", *CAT, "--decode"),
    "check": ("compute", "--q", "q.npy", "--expect", "q.npy"),
    "cost": ("cost", "-n", "100", "--heads", "4", "--dim", "8"),
    "scale": ("scale",),
    "nearest": ("nearest", "bank", "-k", "3"),
    "compare": ("compare", "river bank", "the bank loan", "--word", "bank"),
    "learn": ("learn", "I love apple phone", "--word", "apple", "--to", "phone", "--steps", "2"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_format_is_whole(name: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", np.ones((2, 3)))
    command = COMMANDS[name]
    found = {format: attn(*command, "-f", format) for format in ("json", "jsonl", "csv", "tsv", "npz", "html", "svg")}
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
    assert found["svg"].text.startswith("<svg")
    refused(attn(*command, "-f", "npy"), 2, "npy holds one array")
