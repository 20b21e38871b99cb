"""Tables in files: every format gives back what was written, only the asked words are read, faults are named."""

import gzip
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attn_cli import open_source
from attn_cli.errors import AttnError, ExitCode, InputError, LimitError
from attn_cli.sources.tables import MINILM_FILE, TABLE_NAMES, open_table
from attn_cli.sources.tables.files import open_table_file
from attn_cli.sources.tables.source import split_words
from tests.program import attn, refused
from tests.tools.make_minilm import MODEL_PACKAGE, model_folder, table_file

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


def test_a_csv_may_name_its_columns(tmp_path: Path) -> None:
    for header in ("", "word,0,1\n", ",0,1\n", "word,a,b\n"):
        (tmp_path / "t.csv").write_text(f'{header}river,1,2\n"bank",3,4\n')
        ((_, words, vectors),) = open_table_file(str(tmp_path / "t.csv")).blocks()
        assert (words, vectors.tolist()) == (("river", "bank"), [[1, 2], [3, 4]]), header


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("he sat on the river bank", ["he", "sat", "on", "the", "river", "bank"]),
        ("Well, I'm here...", ["Well", ",", "I", "'", "m", "here", ".", ".", "."]),
        ("don’t", ["don", "’", "t"]),
        ("in 2012 at 3.5%", ["in", "2012", "at", "3", ".", "5", "%"]),
        ("snake_case well-known", ["snake", "_", "case", "well", "-", "known"]),
        ("cafe\u0301 naïve", ["cafe\u0301", "naïve"]),  # an accent stays on its letter, however it is coded
        ("हिन्दी में", ["हिन्दी", "में"]),  # vowel signs are marks, not letters
        ("日本 語", ["日本", "語"]),
        ("I ❤️ you", ["I", "❤️", "you"]),
        ("a\tb\nc\u00a0d\u200be", ["a", "b", "c", "d", "e"]),
        ("\ufeffbank \u0301", ["bank", "\u0301"]),
        ("", []),
        ("  \n", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert [word for word, _, _ in split_words(text)] == words


@given(st.text())
def test_offsets_point_at_the_words_in_order(text: str) -> None:
    found = split_words(text)
    assert all(word and text[start:end] == word for word, start, end in found)
    assert all(first[2] <= second[1] for first, second in pairwise(found))
    covered = {at for _, start, end in found for at in range(start, end)}
    assert all(at in covered for at, character in enumerate(text) if character.isalnum())


def test_a_table_drops_the_punctuation_that_it_lacks_and_nothing_else() -> None:
    small = open_table("the-cat-sat")
    assert split_words("The cat, sat + slept.", small) == [
        ("The", 0, 3),
        ("cat", 4, 7),
        ("sat", 9, 12),
        ("+", 13, 14),
        ("slept", 15, 20),
    ]
    assert split_words("cat,", open_table("minilm")) == [("cat", 0, 3), (",", 3, 4)]


@pytest.mark.parametrize(("text", "words"), [("a " * 200_001, "200,001 words"), ("a" * 4_000_001, "4,000,001 letters")])
def test_a_text_of_hours_is_refused_at_once(text: str, words: str) -> None:
    with pytest.raises(LimitError, match=f"has {words}, and a table reads 200,000") as caught:
        open_source("toy").read([text])
    assert "--lines" in caught.value.hint


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_table_is_whole(name: str) -> None:
    table = open_table(name)
    assert table.name == name
    assert table.vectors.shape[0] == len(table.words)
    assert table.vectors.shape[1] % table.heads == 0
    assert (table.q is None) == (table.k is None)
    assert [table.index(word) for word in table.words] == list(range(len(table.words)))


def test_a_word_is_found_in_any_case_and_an_unknown_table_lists_the_known_ones() -> None:
    table = open_table("my-name-is-ankit")
    assert table.index("Ankit") == table.index("ankit") == table.index("ANKIT") == 3
    assert table.index("mine") is None
    with pytest.raises(InputError) as caught:
        open_table("minilmm")
    assert caught.value.message == "no built-in table is named 'minilmm'"
    assert all(name in caught.value.hint for name in TABLE_NAMES)
    assert caught.value.code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("text", "word", "companion"),
    [
        ("he sat on the river bank", "bank", "river"),
        ("the bank approved my loan application", "bank", "loan"),
        ("I love apple phone", "apple", "phone"),
        ("the king and queen ruled a country", "queen", "king"),
        ("the teacher gave students a book to read", "teacher", "students"),
    ],
)
def test_a_word_looks_to_its_companion_before_any_other(text: str, word: str, companion: str) -> None:
    rows = attn("top", text, "-t", word, "--mean", "--json").json["tables"]["top"]
    assert next(row["key_token"] for row in rows if row["key_token"] != word) == companion


def test_the_file_is_small_plain_and_half_precision_and_has_its_licence_beside_it() -> None:
    assert MINILM_FILE.stat().st_size <= 3_000_000
    with zipfile.ZipFile(MINILM_FILE) as archive:
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_STORED}
    with np.load(MINILM_FILE, allow_pickle=False) as file:
        assert file["words"].dtype == np.uint8
        assert file["vectors"].dtype == np.float16
        steps = file["vectors"].astype(np.float64) * 256
    assert np.array_equal(steps, np.round(steps))
    licence = MINILM_FILE.with_name("LICENSE-minilm").read_text(encoding="utf-8")
    assert "sentence-transformers/all-MiniLM-L6-v2" in licence
    assert "Apache License" in licence


@pytest.mark.skipif(find_spec(MODEL_PACKAGE) is None, reason="the model that the table is made from is not installed")
def test_the_file_is_made_again_byte_for_byte() -> None:
    assert table_file(model_folder()) == MINILM_FILE.read_bytes()
