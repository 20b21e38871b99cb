"""Tables in files: every format gives back what was written, only the asked words are read, faults are named."""

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attn_cli.errors import AttnError
from attn_cli.sources.tables.files import open_table_file
from tests.program import attn, refused

Vectors = np.ndarray
letters = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "M"]), min_size=1, max_size=6)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], Vectors]:
    """Words that differ also when their case is forgotten, with vectors that float32 holds exactly."""
    words = draw(st.lists(letters, min_size=2, max_size=12, unique_by=lambda word: word.lower()))
    d = draw(st.integers(2, 5))
    number = st.floats(-1e6, 1e6, width=32)
    rows = draw(st.lists(st.lists(number, min_size=d, max_size=d), min_size=len(words), max_size=len(words)))
    return words, np.array(rows, dtype=np.float32)


def lines(words: list[str], vectors: Vectors, between: str = " ", end: str = "\n") -> str:
    return "".join(
        between.join([word, *(repr(float(x)) for x in row)]) + end for word, row in zip(words, vectors, strict=True)
    )


def cells(words: list[str], vectors: Vectors, mark: str, names: list[str], point: str = ".") -> bytes:
    stream = io.StringIO()
    rows = ([word, *(repr(float(x)).replace(".", point) for x in row)]
            for word, row in zip(words, vectors, strict=True))  # fmt: skip
    csv.writer(stream, delimiter=mark).writerows([*([names] if names else []), *rows])
    return stream.getvalue().encode()


def npz(words: np.ndarray, vectors: Vectors, save: Callable[..., None] = np.savez) -> bytes:
    stream = io.BytesIO()
    save(stream, words=words, vectors=vectors)
    return stream.getvalue()


Writer = Callable[[list[str], Vectors], bytes]
WRITERS: dict[str, Writer] = {
    "glove.txt": lambda words, vectors: lines(words, vectors).encode(),
    "without_last_line_end.txt": lambda words, vectors: lines(words, vectors).rstrip("\n").encode(),
    "tabs.tsv": lambda words, vectors: cells(words, vectors, "\t", []),
    "commas.csv": lambda words, vectors: cells(words, vectors, ",", []),
    "names.csv": lambda words, vectors: cells(words, vectors, ",", ["word", *map(str, range(vectors.shape[1]))]),
    "semicolons.csv": lambda words, vectors: cells(
        words, vectors, ";", ["Wort", *(f"x{at}" for at in vectors[0])], ","
    ),
    "word2vec.vec": lambda words, vectors: (
        f"{len(words)} {vectors.shape[1]}\n{lines(words, vectors, end=' ' + chr(10))}".encode()
    ),
    "glove.txt.gz": lambda words, vectors: gzip.compress(lines(words, vectors).encode()),
    "plain.npz": lambda words, vectors: npz(np.array(words), vectors),
    "packed.npz": lambda words, vectors: npz(np.array([word.encode() for word in words]), vectors, np.savez_compressed),
    "object.json": lambda words, vectors: json.dumps(dict(zip(words, vectors.tolist(), strict=True))).encode(),
    "lists.json": lambda words, vectors: json.dumps({"words": words, "vectors": vectors.tolist()}).encode(),
}


def written(folder: Path, name: str, words: list[str], vectors: Vectors) -> str:
    (folder / name).write_bytes(WRITERS[name](words, vectors))
    return str(folder / name)


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(table=tables(), order=st.randoms())
def test_every_format_gives_back_what_was_written(name: str, table, order, tmp_path: Path) -> None:
    words, vectors = table
    read = open_table_file(written(tmp_path, name, words, vectors))
    whole = list(read.blocks())
    assert [word for _, block, _ in whole for word in block] == words
    assert np.array_equal(np.concatenate([rows for _, _, rows in whole]), vectors)
    asked = words * 2
    order.shuffle(asked)
    for word in asked:  # one by one and in any order: forward through the file, and back
        at = read.index(word)
        assert at == words.index(word)
        assert read.word(at) == word
        assert np.array_equal(read.rows([at])[0], vectors[at])
    assert read.index("no such word") is None


def test_a_word_is_found_as_written_or_else_in_any_case(tmp_path: Path) -> None:
    words = ["apple", "Apple", "IBM", "École"]
    for name in WRITERS:
        read = open_table_file(written(tmp_path, name, words, np.eye(4, dtype=np.float32)))
        found = {word: read.index(word) for word in ("Apple", "APPLE", "apple", "ibm", "école", "Ibm", "apples")}
        assert found == {"Apple": 1, "APPLE": 0, "apple": 0, "ibm": 2, "école": 3, "Ibm": 2, "apples": None}, name


def test_of_equal_words_the_first_counts(tmp_path: Path) -> None:
    for name in WRITERS:
        if name != "object.json":  # an object has no equal keys
            read = open_table_file(written(tmp_path, name, ["a", "b", "a"], np.eye(3, dtype=np.float32)))
            assert read.index("a") == 0, name


def test_words_may_hold_blanks_and_do_not_hide_others(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("the 1 2\n. . . 3 4\n. 5 6\nat name@domain.com 7 8\nat 9 10\n")
    read = open_table_file(str(tmp_path / "t.txt"))
    assert read.rows([read.index("."), read.index("at")]).tolist() == [[5, 6], [9, 10]]  # type: ignore[list-item]
    assert [word for _, words, _ in read.blocks() for word in words][1] == ". . ."


def test_a_search_ends_where_all_words_were_found(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("he 1 2\nsat 3 4\nhere is the end of what can be read\n")
    read = open_table_file(str(tmp_path / "t.txt"))
    read.look_up(["sat", "he"])
    assert read.rows([0, 1]).tolist() == [[1, 2], [3, 4]]
    assert read.index("river") is None  # that line begins with another word, so nobody reads its numbers
    with pytest.raises(AttnError, match="line 3"):
        list(read.blocks())


FAULTS: list[tuple[str, bytes | str, str]] = [
    ("t.txt", "a 1 2\nriver 3\n", "t.txt line 2 has 1 number, line 1 has 2"),
    ("t.vec", "9 2\na 1 2\nb 3 4\n", "t.vec is truncated: line 1 promises 9 words, 2 are there"),
    ("t.txt", "a 1 2\nriver 3 x\n", "t.txt line 2: 'x' is not a number (word 'river')"),
    ("t.txt", "a 1 2\nriver 3 1e999\n", "t.txt line 2: 1e999 in the vector of 'river'"),
    ("t.txt", "a 1\n" + "b" * 2**20, "t.txt line 2 is longer than 1,048,576 bytes"),
    ("t.txt", b"\xff\xd8\xff\xe0 a picture \0", "t.txt is not a table of words"),
    (
        "t.txt.gz",
        gzip.compress(b"a 1 2\nriver 3 4\n" * 999)[:-20],
        "t.txt.gz can't be read: Compressed file ended before",
    ),
    ("t.csv", "word,x,y\na,1,2\nriver,3\n", "t.csv line 3 has 1 number, line 2 has 2"),
    ("t.csv", "a;1;2\nriver;3;x\n", "t.csv line 2: 'x' is not a number (word 'river')"),
    ("t.csv", "a,1,2\n\nriver,3,4\n", "t.csv line 2 is blank"),
    ("t.csv", "word,x,y\n", "t.csv line 1: 'word,x,y' is not a word with numbers"),
    ("t.tsv", "a\t1\t2\n\t3\t4\n", "t.tsv line 2 has no word"),
    ("t.txt", b"\x80\x04\x95 a pickle", "pickle"),
    ("t.json", '{"a": [1, 2], "river": [1]}', "'river' has 1 number, 'a' has 2"),
    ("t.npz", b"PK\x03\x04 cut off", "t.npz can't be read: File is not a zip file"),
]


@pytest.mark.parametrize(("name", "content", "words"), FAULTS, ids=[f"{name}-{words}" for name, _, words in FAULTS])
def test_what_is_wrong_is_told_in_one_line(name: str, content, words: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(attn("inspect", "river bank", "-m", name), 2, words)


def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", words=np.array(["river", "bank"]), vectors=np.eye(3))
    refused(attn("inspect", "river", "-m", "a.npz"), 2, "a.npz has 2 words and 3 vectors")
    np.savez("b.npz", words=np.array(["river"]))
    refused(attn("inspect", "river", "-m", "b.npz"), 2, "b.npz has no array `vectors`; it holds words")
    np.savez("c.npz", words=np.array(["river", None], dtype=object), vectors=np.eye(2))
    refused(attn("inspect", "river", "-m", "c.npz"), 2, "c.npz")
    for order in "<>":
        words = np.array([0x62, 0x7FFFFFFF, 0x63, 0x64], f"{order}u4").view(f"{order}U2")
        np.savez("f.npz", words=words, vectors=np.eye(2))
        refused(attn("nearest", "bank", "-m", "f.npz"), 2, "f.npz: words holds characters beyond Unicode")
    refused(attn("inspect", "river", "-m", "d.npz"), 3, "no file d.npz", "did you mean")
    Path("e.txt").mkdir()
    refused(attn("inspect", "river", "-m", "e.txt"), 3, "e.txt is a folder")
    refused(attn("inspect", "river", "--pair", "b"), 2, "--pair needs a model")


_PEAK = """
import sys
from attn_cli.sources.memory import peak_memory
from attn_cli.sources.tables.files import open_table_file
small = peak_memory()
table = open_table_file(sys.argv[1])
table.look_up(["word1", "word39999", "WORD20000", "nothing"])
assert [table.index(word) for word in ("word1", "word39999", "WORD20000", "nothing")] == [1, 39999, 20000, None]
assert float(table.rows([39999])[0, 7]) == 39999.0
print(peak_memory() - small)
"""


@pytest.mark.parametrize("name", ["glove.txt.gz", "glove.txt"])
def test_looking_words_up_does_not_load_the_table(name: str, tmp_path: Path) -> None:
    content = "".join(f"word{at}{f' {at}.0' * 100}\n" for at in range(40_000)).encode()
    file = tmp_path / name
    file.write_bytes(gzip.compress(content, 1) if name.endswith("gz") else content)
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, os.fspath(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    # the vectors alone are 16 MB; 16 bytes a word, a buffer and what Python takes are a few
    assert int(done.stdout) < 8 * 2**20


def test_vectors_beside_their_words_stay_in_the_file(tmp_path: Path) -> None:
    vectors = np.repeat(np.arange(40_000, dtype=np.float32)[:, None], 400, axis=1)  # 64 MB: mapped, not read
    file = written(tmp_path, "plain.npz", [f"word{at}" for at in range(40_000)], vectors)
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, os.fspath(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 32 * 2**20  # the words and where they are, which this format has all in one place
