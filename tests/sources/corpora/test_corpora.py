"""Corpora of every kind of file hold the documents that were written into them, wherever reading starts."""

import csv
import gzip
import io
import json
import os
import pickle
import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from attn_cli.errors import AttnError, InputError
from attn_cli.sources import corpora
from attn_cli.sources.corpora import Corpus, Document, RejectedRecord, TextField, inputs, line_records, open_corpus
from attn_cli.sources.corpora.inputs import files_of

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


def texts_of(corpus: Corpus, start: int = 0, stop: int | None = None) -> list[str]:
    return [item.text for item in corpus.documents(start, stop) if isinstance(item, Document)]


def poisons_of(corpus: Corpus) -> list[tuple[int, str]]:
    return [(item.number, item.reason) for item in corpus.documents() if isinstance(item, RejectedRecord)]


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_gives_back_its_texts_from_any_place(tmp_path: Path, name: str, packing: str) -> None:
    file = tmp_path / (name + packing)
    file.write_bytes(PACKERS[packing](WRITERS[name](TEXTS)))
    corpus = pickle.loads(pickle.dumps(open_corpus([str(file)])))
    assert texts_of(corpus) == TEXTS
    assert corpus.count() == len(TEXTS)
    for start in range(len(TEXTS) + 2):
        for stop in (start, start + 1, start + 4):
            assert texts_of(corpus, start, stop) == TEXTS[start:stop]
            assert [item.number for item in corpus.documents(start, stop)] == list(range(len(TEXTS)))[start:stop]


def test_inputs_of_all_kinds_are_one_sequence(tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        (tmp_path / name).write_bytes(write([f"{name} {at}" for at in range(5)]))
    corpus = open_corpus([str(tmp_path)])
    everything = texts_of(corpus)
    assert everything == [f"{name} {at}" for name in sorted(WRITERS) for at in range(5)]
    assert [texts_of(corpus, start, start + 3) for start in range(0, 35, 3)] == [
        everything[start : start + 3] for start in range(0, 35, 3)
    ]
    origins = [str(item.origin) for item in corpus.documents(4, 6)]
    assert origins == [f"{tmp_path / 'a.arrow'}:5", f"{tmp_path / 'a.csv'}:1"]


def test_folders_globs_and_hidden_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a.jsonl", "sub/c.txt", ".hidden.txt", "_work/d.txt", "picture.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(as_json_lines([name]) if name.endswith("jsonl") else as_lines([name]))
    assert texts_of(open_corpus([str(tmp_path)])) == ["a.jsonl", "b.txt", "sub/c.txt"]
    assert texts_of(open_corpus([str(tmp_path / "**" / "[bc].txt")])) == ["b.txt", "sub/c.txt"]
    assert texts_of(open_corpus([str(tmp_path / "sub"), str(tmp_path / "b.txt")])) == ["sub/c.txt", "b.txt"]


def test_a_file_that_a_glob_reaches_through_folders_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "deep" / "a.txt").write_text("a\n")
    (tmp_path / "deep" / "deeper" / "b.txt").write_text("b\n")
    (tmp_path / "empty").mkdir()
    assert texts_of(open_corpus([str(tmp_path / "**" / "*")])) == ["a", "b"]
    assert texts_of(open_corpus([str(tmp_path / "**" / "deeper")])) == ["b"]


def test_a_glob_of_everything_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_FILES", 2)
    for name in "abc":
        (tmp_path / name).write_text("a text\n")
    with pytest.raises(InputError, match="matches more than 2 files"):
        open_corpus([str(tmp_path / "*")])


@pytest.mark.parametrize("claimed", [b"\x06", b"\x0f"], ids=["fewer", "negative"])
def test_a_parquet_file_that_miscounts_its_rows_is_refused(tmp_path: Path, claimed: bytes) -> None:
    file = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"text": ["a text"] * 9}), file)
    good = file.read_bytes()
    place = good.index(b"\x16\x12\x19", good.rindex(b"text\x25"))  # 9 rows, then the list of groups
    file.write_bytes(good[: place + 1] + claimed + good[place + 2 :])
    with pytest.raises(InputError, match=r"claims -?\d+ rows, its groups 9"):
        open_corpus([str(file)])


def test_a_dataset_saved_on_disk(tmp_path: Path) -> None:
    """As Hugging Face datasets 5 writes it; the order of its files is what its state says."""
    split = tmp_path / "train"
    split.mkdir()
    names = ["data-00001-of-00002.arrow", "data-00000-of-00002.arrow"]
    for name, texts in zip(names, (TEXTS[:4], TEXTS[4:]), strict=True):
        (split / name).write_bytes(as_arrow(texts))
    (split / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (split / "dataset_info.json").write_text("{}")
    assert texts_of(open_corpus([str(split)])) == TEXTS
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(InputError, match="splits train, test"):
        open_corpus([str(tmp_path)])


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("[1]", "names no data_files"),
        ('{"_data_files": 5}', "names no data_files"),
        ('{"_data_files": [{}]}', "names no data_files"),
        ('{"_data_files": [{"filename": 5}]}', "names 5, which is nothing in its folder"),
        ('{"_data_files": [{"filename": "../a.arrow"}]}', "names ../a.arrow, which is nothing in its folder"),
        ('{"_data_files": [{"filename": ".."}]}', "names .., which is nothing in its folder"),
        ('{"_data_files": [{"filename": "pipe.arrow"}]}', "is a pipe"),
        ('{"_data_files": [{"filename": "a\\u0000b"}]}', "no file"),
    ],
)
def test_a_dataset_that_names_no_files_of_its_own_is_refused(state: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(as_arrow(TEXTS))
    split = tmp_path / "train"
    split.mkdir()
    os.mkfifo(split / "pipe.arrow")
    (split / "state.json").write_text(state)
    with pytest.raises(InputError, match=re.escape(words)):
        files_of([str(split)])


def test_splits_that_are_no_list_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dataset_dict.json").write_text('{"splits": 5}')
    with pytest.raises(InputError, match="names no splits"):
        files_of([str(tmp_path)])


def test_pipes_and_devices_in_a_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a text\n")
    os.mkfifo(tmp_path / "b.txt")
    (tmp_path / "c.txt").symlink_to(os.devnull)
    assert [file.path.name for file in files_of([str(tmp_path)])] == ["a.txt"]


def test_standard_input_that_is_hardly_text_is_left_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "PROBED", 40)
    noise = b"\xff\n" * 40
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a text\n" + noise)))
    with pytest.raises(InputError, match=r"only 1 of the first 40 records of standard input are texts"):
        list(open_corpus(["-"]).documents())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a text\nb\n" + noise + b"a text\n")))
    assert texts_of(open_corpus(["-"]))[-1:] == ["a text"]


def test_standard_input_is_lines_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, content in ((None, as_lines(TEXTS)), ("jsonl", as_json_lines(TEXTS))):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content), closed=False))
        corpus = open_corpus(["-"], kind=kind)
        assert corpus.count() is None
        assert texts_of(corpus, 1) == TEXTS[1:]
    with pytest.raises(InputError, match="no known size"):
        open_corpus(["-"], sample="10")


def test_a_row_that_unpacks_to_more_than_a_document_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attn_cli.sources.corpora.columns.LONGEST_RECORD", 40)
    (tmp_path / "a.parquet").write_bytes(as_parquet(["good", "a" * 41, "last"]))
    assert texts_of(open_corpus([str(tmp_path / "a.parquet")])) == ["good", "last"]


def test_bad_records_are_named_and_end_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_records, "LONGEST_RECORD", 40)
    lines = [b'{"text": "good"}', b'{"text": "\xff"}', b"{broken", b'{"other": 1}', b'{"text": null}', b'{"text": ""}',
             b'{"text": "\\ud800"}', b"[1]", b"", b'{"text": "' + b"a" * 90 + b'"}', b'{"text": "last"}']  # fmt: skip
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\n".join(lines))
    corpus = open_corpus([str(file)])
    assert texts_of(corpus) == ["good", "last"]
    assert poisons_of(corpus) == [
        (1, "not UTF-8"), (2, "not JSON"), (3, "no such field"), (4, "not text"), (5, "empty"), (6, "not UTF-8"),
        (7, "no such field"), (8, "empty"), (9, "too long"),
    ]  # fmt: skip
    assert [item.number for item in corpus.documents(10)] == [10]


def test_bad_rows_of_tables(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b'id,text\n1,"two\nlines"\n2\n3,\xff\n4,last')
    corpus = open_corpus([str(file)])
    assert texts_of(corpus) == ["two\nlines", "last"]
    assert poisons_of(corpus) == [(1, "no such field"), (2, "not UTF-8")]
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
    assert texts_of(corpus, place + 1) == ["after"]


def test_a_damaged_table_keeps_its_number_of_rows(tmp_path: Path) -> None:
    content = bytearray(as_parquet([text * 50 for text in TEXTS]))
    place = content.index(b"seven")
    content[place - 60 : place + 40] = b"\xff" * 100
    (tmp_path / "a.parquet").write_bytes(content)
    (tmp_path / "b.txt").write_bytes(b"after\n")
    corpus = open_corpus([str(tmp_path)])
    assert [item.number for item in corpus.documents()] == list(range(len(TEXTS) + 1))
    assert texts_of(corpus)[-1] == "after"
    assert poisons_of(corpus)[-1][1] == "not readable"


def test_messages_and_fields_become_parts(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    chat = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}]
    file.write_text(json.dumps({"title": "A", "meta": {"body": "B"}, "messages": chat}))
    (document,) = open_corpus([str(file)]).documents()
    assert isinstance(document, Document)
    assert document.text == "hello\n\nhi"
    assert document.fields == (TextField(0, 5, "user"), TextField(7, 9, "assistant"))
    (document,) = open_corpus([str(file)], fields=["title", "meta.body"]).documents()
    assert isinstance(document, Document)
    assert [(name, document.text[start:end]) for start, end, name in document.fields] == [
        ("title", "A"), ("meta.body", "B")]  # fmt: skip
    parquet.write_table(pa.table({"conversations": [[{"from": "human", "value": "hello"}]]}), tmp_path / "a.parquet")
    (document,) = open_corpus([str(tmp_path / "a.parquet")]).documents()
    assert document[2:4] == ("hello", (TextField(0, 5, "human"),))


def test_samples_depend_on_seed_and_number_alone(tmp_path: Path) -> None:
    many = [str(at) for at in range(5000)]
    (tmp_path / "a.txt").write_bytes(as_lines(many[:3000]))
    (tmp_path / "b.jsonl").write_bytes(as_json_lines(many[3000:]))
    exact = texts_of(corpus := open_corpus([str(tmp_path)], sample="500", seed=1))
    assert len(exact) == 500 and exact == sorted(exact, key=int)
    parts = [texts_of(corpus, start, start + 700) for start in range(0, 5000, 700)]
    assert list(chain(*parts)) == exact
    assert set(texts_of(open_corpus([str(tmp_path)], sample="500", seed=2))) != set(exact)
    share = texts_of(open_corpus([str(tmp_path)], sample="10%", seed=1))
    assert abs(len(share) - 500) < 3 * (5000 * 0.1 * 0.9) ** 0.5 and set(share) & set(exact)
    thirds = [sum(int(text) // 1000 == part for text in exact) for part in range(5)]
    assert max(thirds) - min(thirds) < 60  # 100 are expected of each thousand, with a deviation of 9
    assert len(texts_of(open_corpus([str(tmp_path)], sample="9999"))) == 5000


def test_a_fingerprint_tells_another_corpus_and_knows_a_copy(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(as_lines(TEXTS))
    first = open_corpus([str(file)], sample="50%").fingerprint()
    assert json.loads(json.dumps(first)) == first
    file.touch()
    assert open_corpus([str(file)], sample="50%").fingerprint() == first
    assert open_corpus([str(file)], sample="40%").fingerprint() != first
    assert open_corpus([str(file)], sample="50%", seed=1).fingerprint() != first
    file.write_bytes(as_lines(["0ne", *TEXTS[1:]]))
    assert open_corpus([str(file)], sample="50%").fingerprint() != first


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.jsonl", as_json_lines(TEXTS), {"fields": ["body"]}, "has no field 'body': its first record has id, text"),
        ("a.csv", as_table(TEXTS), {"fields": ["body"]}, "has no column 'body': it has id, text"),
        ("a.parquet", as_parquet(TEXTS), {"fields": ["body"]}, "has no column 'body': it has id, text"),
        ("a.parquet", b"PAR1 or not", {}, "can't be read"),
        ("a.arrow", b"not Arrow", {}, "can't be read"),
        ("a.csv", b"", {}, "holds no line of names"),
        ("a.json", b"[]", {}, "may be one JSON value"),
        ("a.txt", b"a\x00b", {}, "holds no lines of text"),
        ("a.txt", "ab".encode("utf-16"), {}, "is UTF-16"),
        ("a.parquet.gz", b"not packed", {}, "can't be unpacked"),
        ("a.txt", b"a", {"kind": "yaml"}, "--as yaml"),
        ("a.txt", b"a", {"sample": "many"}, "--sample 'many'"),
        ("a.txt", b"a", {"sample": "0"}, "--sample '0'"),
        ("a.txt", b"a", {"sample": "200%"}, "--sample '200%'"),
    ],
)  # fmt: skip
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


def test_a_file_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("a\n")
    with pytest.raises(InputError) as error:
        files_of([str(tmp_path / "corpsu.txt")])
    assert "corpus.txt?" in error.value.hint
