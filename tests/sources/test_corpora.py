"""Corpora of every kind of file hold the documents that were written into them, wherever reading starts."""

import csv
import gzip
import io
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import ipc, parquet

from attn_cli.errors import AttnError, InputError
from attn_cli.prompt import EncodedText
from attn_cli.sources import corpora
from attn_cli.sources.batches import pieces_of
from attn_cli.sources.corpora import Corpus, Document, files_of, open_corpus

TEXTS = ["one", "two words", "drei\tTab", "vier, mit Komma", "中文", 'six "quoted"', "seven"]


def as_lines(texts: list[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def as_json_lines(texts: list[str]) -> bytes:
    return "".join(json.dumps({"id": at, "text": text}) + "\n" for at, text in enumerate(texts)).encode()


def as_table(texts: list[str], delimiter: str = ",") -> bytes:
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter).writerows([["id", "text"], *enumerate(texts)])
    return stream.getvalue().encode()


def columns(texts: list[str]) -> pa.Table:
    return pa.table({"id": list(range(len(texts))), "text": texts})


def as_parquet(texts: list[str]) -> bytes:
    stream = io.BytesIO()
    parquet.write_table(columns(texts), stream, row_group_size=3)
    return stream.getvalue()


def as_arrow(texts: list[str], open_writer: Callable[..., Any] = ipc.new_stream) -> bytes:
    stream, table = io.BytesIO(), columns(texts)
    with open_writer(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return stream.getvalue()


WRITERS: dict[str, Callable[[list[str]], bytes]] = {
    "a.txt": as_lines,
    "a.jsonl": as_json_lines,
    "a.csv": as_table,
    "a.tsv": lambda texts: as_table(texts, "\t"),
    "a.parquet": as_parquet,
    "a.arrow": as_arrow,
    "b.arrow": lambda texts: as_arrow(texts, ipc.new_file),
}


def zstd(content: bytes) -> bytes:
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, "zstd") as stream:
        stream.write(content)
    return bytes(packed.getvalue())


PACKERS = {"": bytes, ".gz": gzip.compress, ".zst": zstd}


def texts_of(corpus: Corpus) -> list[str]:
    return [item.text for item in corpus.documents() if not item.reason]


def poisons_of(corpus: Corpus) -> list[tuple[int, str]]:
    return [(item.number, item.reason) for item in corpus.documents() if item.reason]


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_gives_back_its_texts_as_often_as_asked(tmp_path: Path, name: str, packing: str) -> None:
    if packing and not name.endswith(("txt", "jsonl", "csv", "tsv")):
        pytest.skip("tables of columns pack themselves")
    file = tmp_path / (name + packing)
    file.write_bytes(PACKERS[packing](WRITERS[name](TEXTS)))
    corpus = open_corpus([str(file)])
    assert texts_of(corpus) == texts_of(corpus) == TEXTS
    assert corpus.count() == len(TEXTS)
    assert [(item.number, item.file, item.record) for item in corpus.documents()] == [
        (at, str(file), at + 1) for at in range(len(TEXTS))
    ]


def test_folders_globs_and_hidden_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a.jsonl", "sub/c.txt", ".hidden.txt", "_work/d.txt", "picture.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(as_json_lines([name]) if name.endswith("jsonl") else as_lines([name]))
    assert texts_of(open_corpus([str(tmp_path)])) == ["a.jsonl", "b.txt", "sub/c.txt"]
    assert texts_of(open_corpus([str(tmp_path / "**" / "[bc].txt")])) == ["b.txt", "sub/c.txt"]
    assert texts_of(open_corpus([str(tmp_path / "sub"), str(tmp_path / "b.txt")])) == ["sub/c.txt", "b.txt"]


def test_pipes_and_devices_in_a_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a text\n")
    os.mkfifo(tmp_path / "b.txt")
    (tmp_path / "c.txt").symlink_to(os.devnull)
    assert [Path(name).name for name, _ in files_of([str(tmp_path)])] == ["a.txt"]


def test_standard_input_is_lines_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, content in ((None, as_lines(TEXTS)), ("jsonl", as_json_lines(TEXTS))):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content), closed=False))
        corpus = open_corpus(["-"], kind=kind)
        assert corpus.count() is None
        assert texts_of(corpus) == TEXTS
    with pytest.raises(InputError, match="no known size"):
        open_corpus(["-"], sample=10)


def test_bad_records_are_named_and_end_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "LONGEST_RECORD", 40)
    lines = [b'{"text": "good"}', b'{"text": "\xff"}', b"{broken", b'{"other": 1}', b'{"text": null}', b'{"text": ""}',
             b'{"text": "\\ud800"}', b"[1]", b"", b'{"text": "' + b"a" * 90 + b'"}', b'{"text": "last"}']  # fmt: skip
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\n".join(lines))
    corpus = open_corpus([str(file)])
    assert texts_of(corpus) == ["good", "last"]
    assert poisons_of(corpus) == [
        (1, "not UTF-8"), (2, "not JSON"), (3, "no such field"), (4, "not text"), (5, "empty"), (6, "not UTF-8"),
        (7, "not an object"), (8, "empty"), (9, "too long"),
    ]  # fmt: skip


def test_bad_rows_of_tables(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b'id,text\n1,"two\nlines"\n2\n3,\xff\n4,last')
    corpus = open_corpus([str(file)])
    assert texts_of(corpus) == ["two\nlines", "last"]
    assert poisons_of(corpus) == [(1, "not text"), (2, "not UTF-8")]
    binary = pa.array([b"good", b"\xff", None, b"last"]).view(pa.binary())
    text = pa.StringArray.from_buffers(4, *binary.buffers()[1:], null_bitmap=binary.buffers()[0])
    parquet.write_table(pa.table({"text": text}), tmp_path / "a.parquet")
    corpus = open_corpus([str(tmp_path / "a.parquet")])
    assert texts_of(corpus) == ["good", "last"]
    assert poisons_of(corpus) == [(1, "not UTF-8"), (2, "not text")]


@pytest.mark.parametrize("packing", [".gz", ".zst"])
def test_a_packed_file_that_was_cut_short_gives_what_is_left(tmp_path: Path, packing: str) -> None:
    many = [f"{at} {at * 7919 % 977}" for at in range(40_000)]
    whole = PACKERS[packing](as_lines(many))
    (tmp_path / f"a.txt{packing}").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "b.txt").write_bytes(b"after\n")
    corpus = open_corpus([str(tmp_path)])
    found = texts_of(corpus)
    assert found == [*many[: len(found) - 1], "after"] and len(found) > 10_000
    ((place, reason),) = poisons_of(corpus)
    assert (place, reason) == (len(found) - 1, "not readable")


def test_a_fingerprint_tells_another_corpus_and_knows_a_copy(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(as_lines(TEXTS))
    first = open_corpus([str(file)], sample=4).fingerprint()
    assert json.loads(json.dumps(first)) == first
    file.touch()
    assert open_corpus([str(file)], sample=4).fingerprint() == first
    assert open_corpus([str(file)], sample=3).fingerprint() != first
    assert open_corpus([str(file)], sample=4, seed=1).fingerprint() != first
    file.write_bytes(as_lines(["0ne", *TEXTS[1:]]))
    assert open_corpus([str(file)], sample=4).fingerprint() != first


def test_a_sample_is_exactly_so_many_documents_drawn_by_the_seed(tmp_path: Path) -> None:
    many = [str(at) for at in range(5000)]
    (tmp_path / "a.txt").write_bytes(as_lines(many[:3000]))
    (tmp_path / "b.jsonl").write_bytes(as_json_lines(many[3000:]))
    exact = texts_of(corpus := open_corpus([str(tmp_path)], sample=500, seed=1))
    assert len(exact) == corpus.count() == 500 and exact == sorted({*exact}, key=int)
    assert exact == texts_of(open_corpus([str(tmp_path)], sample=500, seed=1))
    assert set(texts_of(open_corpus([str(tmp_path)], sample=500, seed=2))) != set(exact)
    fifths = [sum(int(text) // 1000 == part for text in exact) for part in range(5)]
    assert max(fifths) - min(fifths) < 60  # 100 are expected of each thousand, with a deviation of 9
    assert len(texts_of(open_corpus([str(tmp_path)], sample=9999))) == 5000


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.jsonl", as_json_lines(TEXTS), {"field": "body"}, "has no field 'body' among id, text"),
        ("a.csv", as_table(TEXTS), {"field": "body"}, "has no field 'body' among id, text"),
        ("a.parquet", as_parquet(TEXTS), {"field": "body"}, "has no field 'body' among id, text"),
        ("a.parquet", b"PAR1 or not", {}, "can't be read"),
        ("a.arrow", b"not Arrow", {}, "can't be read"),
        ("a.json", b"[]", {}, "may be one JSON value"),
        ("a.txt", b"a\x00b", {}, "holds no lines of text"),
        ("a.txt", "ab".encode("utf-16"), {}, "is UTF-16"),
        ("a.parquet.gz", b"not packed", {}, "can't be read"),
        ("a.txt", b"a", {"kind": "yaml"}, "--as yaml"),
    ],
)
def test_what_is_no_corpus_is_said_at_once(
    tmp_path: Path, name: str, content: bytes, options: dict[str, Any], message: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(AttnError, match=message) as caught:
        list(open_corpus([str(file)], **options).documents())
    assert "\n" not in caught.value.message and caught.value.hint


def test_inputs_that_are_not_there(tmp_path: Path) -> None:
    for name in ("nothing.txt", "*.txt", "no/folder/a.txt", ""):
        with pytest.raises(InputError):
            open_corpus([str(tmp_path / name)])
    with pytest.raises(InputError, match="more than once"):
        open_corpus(["-", "-"])


ADDED = 2  # tokens around every text


def encode(texts: Sequence[str]) -> list[EncodedText]:
    """Words in tokens of up to three letters, with the space before a word, between a token at each end."""
    return [_encoded(text) for text in texts]


def _encoded(text: str) -> EncodedText:
    spans = [
        (start, min(start + 3, match.end()))
        for match in re.finditer(r"\s*\S+", text)
        for start in range(match.start(), match.end(), 3)
    ]
    starts, ends = (np.array([-1, *(span[at] for span in spans), -1]) for at in range(2))
    return EncodedText(np.zeros(len(starts), np.int64), starts < 0, starts, ends)


def document(text: str) -> Document:
    return Document(3, "a.txt", 4, text)


def words_of(text: str) -> list[str]:
    (tokens,) = encode([text])
    return [text[start:end] for start, end in zip(tokens.starts, tokens.ends, strict=True) if start >= 0]


words = st.lists(st.text("abc", min_size=1, max_size=7), min_size=1, max_size=60).map(" ".join)


@given(words, st.integers(ADDED + 1, 30))
def test_pieces_are_the_document(text: str, size: int) -> None:
    pieces = list(pieces_of(document(text), encode, size))
    assert "".join(piece.text for piece in pieces) == text
    assert all(len(words_of(piece.text)) + ADDED <= size for piece in pieces)
    assert [(piece.number, piece.piece) for piece in pieces] == [(3, at) for at in range(len(pieces))]
    if size >= ADDED + 8:  # room for the longest word in the second half of a piece
        assert [word for piece in pieces for word in words_of(piece.text)] == words_of(text)


def test_a_size_that_cuts_nothing() -> None:
    with pytest.raises(InputError):
        list(pieces_of(document("abc " * 50), encode, 2))
