"""Tables in files: every format gives back what was written, only the asked words are read, faults are named."""

import gzip
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


Writer = Callable[[list[str], Vectors], bytes]
WRITERS: dict[str, Writer] = {
    "glove.txt": lambda words, vectors: lines(words, vectors).encode(),
    "without_last_line_end.txt": lambda words, vectors: lines(words, vectors).rstrip("\n").encode(),
    "word2vec.vec": lambda words, vectors: (
        f"{len(words)} {vectors.shape[1]}\n{lines(words, vectors, end=' ' + chr(10))}".encode()
    ),
    "glove.txt.gz": lambda words, vectors: gzip.compress(lines(words, vectors).encode()),
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
    ("t.txt", b"\x80\x04\x95 a pickle", "pickle"),
]


@pytest.mark.parametrize(("name", "content", "words"), FAULTS, ids=[f"{name}-{words}" for name, _, words in FAULTS])
def test_what_is_wrong_is_told_in_one_line(name: str, content, words: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(attn("inspect", "river bank", "-m", name), 2, words)


def test_what_is_no_table_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("river 1 2\n")
    np.savez("b.npz", words=np.array(["river"]), vectors=np.eye(1))
    refused(attn("inspect", "river", "-m", "b.npz"), 2, "b.npz is not a table of words")
    refused(attn("inspect", "river", "-m", "b.txt"), 3, "no file b.txt", "did you mean")
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
