"""Folders that no scan has written: a line with exit code 2, and nothing of them is overwritten."""

import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from attn_cli.errors import AttnError, InputError
from attn_cli.scans.scan import scan
from attn_cli.scans.show import differences_of, open_scan
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.source import ModelSource
from tests.program import attn, refused
from tests.scans.corpora import files_of, sentences, written
from tests.scans.word_texts import open_words
from tests.sources.huggingface.conftest import minilm


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("corpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attn_cli.scans.texts.DOCUMENTS", 3)
        scan(open_words(), str(written(place, [*sentences(8), "xyzzy"])), str(place / "whole"))
    return place / "whole"


@pytest.fixture
def folder(whole: Path, tmp_path: Path, small_parts: None) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "scan"))


def _goes_on(folder: Path, whole: Path) -> None:
    scan(open_words(), str(whole.parent / "lines.txt"), str(folder))


def _asks_all(folder: Path) -> None:
    results = open_scan(str(folder))
    results.show()
    results.head("0.0")
    differences_of(results, results)


def test_bytes_that_are_changed_or_cut_off_are_refused_or_change_nothing(folder: Path, whole: Path) -> None:
    source, good = random.Random(0), files_of(folder)
    refusals = 0
    for case in range(24):
        name = source.choice(list(good))
        content = bytearray(good[name])
        if case % 4 == 0:
            del content[source.randrange(len(content)) :]
        else:
            content[source.randrange(len(content))] ^= 1 << source.randrange(8)
        (folder / name).write_bytes(content)
        before = files_of(folder)
        for use in (lambda: _goes_on(folder, whole), lambda: _asks_all(folder)):
            try:
                use()
            except AttnError as error:
                refusals += 1
                assert error.code == 2 and "\n" not in error.message and error.hint
            assert files_of(folder) == before
        (folder / name).write_bytes(good[name])
    assert refusals > 24


@pytest.mark.parametrize(
    ("place", "value"),
    [("layout", 5), ("layout", None), ("model", 7), ("files", "x"), ("files", [None]), ("parts", "x"), ("parts", -1),
     ("fields", 7), ("seed", "\x1b[31mX"), ("dtype", "\x1b[31mX")],
    ids=str,
)  # fmt: skip
def test_a_manifest_that_no_scan_has_written(folder: Path, whole: Path, place: str, value: object) -> None:
    said = json.loads((folder / "scan.json").read_text())
    (folder / "scan.json").write_text(json.dumps(said | {place: value}))
    before = files_of(folder)
    for use in (lambda: _goes_on(folder, whole), lambda: _asks_all(folder)):
        with pytest.raises(InputError) as error:
            use()
        assert "\x1b" not in str(error.value)
    assert files_of(folder) == before


def _column(table: pa.Table, name: str, values: object, kind: object = None) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values, kind))


SPOILT = {
    "a column gone": lambda t: t.drop_columns(["peak_weight"]),
    "of another type": lambda t: _column(t, "entropy_bits", ["x"] * len(t)),
    "a row gone": lambda t: t.slice(1),
    "no rows": lambda t: t.slice(0, 0),
    "infinite": lambda t: _column(t, "entropy_bits", np.full(len(t), np.inf, np.float32)),
    "no text": lambda t: _column(t, "text", [None] * len(t), pa.string()),
    "far tokens": lambda t: _column(t, "peak_query", np.full(len(t), 10**6, np.int32)),
    "of another scan": lambda t: t.replace_schema_metadata({"attn": b'{"scan": "x", "part": 0}'}),
    "of no scan": lambda t: t.replace_schema_metadata(None),
    "no sums": lambda t: t.drop_columns("sums"),
    "other sums": lambda t: t.set_column(t.schema.get_field_index("sums"), "sums", pa.array([b"abcd"] * len(t))),
}


@pytest.mark.parametrize("name", SPOILT)
def test_parts_that_no_scan_has_written(name: str, folder: Path) -> None:
    file = folder / "part-00000.parquet"
    parquet.write_table(SPOILT[name](parquet.read_table(file)), file)
    before = files_of(folder)
    with pytest.raises(InputError):
        _asks_all(folder)
    assert files_of(folder) == before


def test_a_part_of_another_place_in_the_corpus_is_refused(folder: Path, whole: Path) -> None:
    shutil.copy(folder / "part-00001.parquet", folder / "part-00000.parquet")
    with pytest.raises(InputError, match="is a part of another scan"):
        _goes_on(folder, whole)
    refused(attn("scan", "show", folder), 2, "is a part of another scan")


def test_a_half_done_scan_shows_what_is_there(folder: Path, whole: Path) -> None:
    (folder / "part-00001.parquet").unlink()
    assert "1 of 3 parts not done" in attn("scan", "show", folder).text
    _goes_on(folder, whole)
    assert files_of(folder) == files_of(whole)


def test_pipes_and_links_in_place_of_files(folder: Path, whole: Path, tmp_path: Path) -> None:
    (folder / "part-00000.parquet").unlink()
    os.mkfifo(folder / "part-00000.parquet")
    for use in (lambda: _goes_on(folder, whole), lambda: _asks_all(folder)):
        with pytest.raises(InputError, match="is a pipe"):
            use()
    (folder / "part-00000.parquet").unlink()
    (tmp_path / "letter").write_text("dear")
    (folder / ".part-00000").symlink_to(tmp_path / "letter")
    with pytest.raises(AttnError):
        _goes_on(folder, whole)
    assert (tmp_path / "letter").read_text() == "dear"


__all__ = ["minilm"]
GOOD = ["he sat on the bank .", "the river and the bank of the river", "a boat , a boat"]
BAD = {"not UTF-8": b"caf\xe9 au lait", "empty": b"", "too long": b"bank " * 600, "not finite": b"he fed the parrot"}


@pytest.fixture(scope="module")
def overflowing(minilm):  # type: ignore[no-untyped-def]
    """MiniLM with a number that isn't finite in the embedding of the word parrot."""
    number = minilm.tokenizer.convert_tokens_to_ids("parrot")
    embedding = minilm.model.embeddings.word_embeddings.weight
    with torch.no_grad():
        before = embedding[number].clone()
        embedding[number, 3] = float("inf")
    yield ModelSource(minilm)
    with torch.no_grad():
        embedding[number] = before


def lines(folder: Path, *content: bytes) -> str:
    file = folder / "lines.txt"
    file.write_bytes(b"\n".join(content) + b"\n")
    return str(file)


def test_every_reason_is_counted_and_named_and_changes_no_number(overflowing: ModelSource, tmp_path: Path) -> None:
    good, layers = [line.encode() for line in GOOD], Selection(layers=(0, 1))
    file = lines(
        tmp_path, good[0], BAD["not UTF-8"], BAD["not finite"], good[1], BAD["empty"], BAD["too long"], good[2]
    )
    done = scan(overflowing, file, str(tmp_path / "all"), selection=layers)
    assert (done["documents"], done["records"], done["rejected"]) == (3, 7, 4)
    assert done["reasons"] == dict.fromkeys(BAD, 1)
    rows = parquet.read_table(tmp_path / "all" / "rejects-00000.parquet").to_pylist()
    named = [(row["document"], row["record"], row["reason"]) for row in rows]
    assert named == [(1, 2, "not UTF-8"), (2, 3, "not finite"), (4, 5, "empty"), (5, 6, "too long")]
    assert "602 tokens, and the model reads 512" in rows[-1]["detail"]
    scan(overflowing, lines(tmp_path, *good), str(tmp_path / "good"), selection=layers)
    one, other = (open_scan(str(tmp_path / name)).values("entropy_bits") for name in ("all", "good"))
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_text_of_one_token_or_none_has_nothing_to_attend_to(tmp_path: Path) -> None:
    done = scan(open_words(), lines(tmp_path, b"river bank", b"bank", b"xyzzy"), str(tmp_path / "scan"))
    assert (done["documents"], done["reasons"]) == (1, {"one token": 1, "no token": 1})
