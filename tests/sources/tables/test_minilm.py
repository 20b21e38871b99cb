"""The shipped word table: its file, and the texts that it is there to make plain."""

import zipfile
from importlib.util import find_spec

import numpy as np
import pytest

from attn_cli.sources.tables import MINILM_FILE, VectorTable, open_table
from attn_cli.sources.tables.source import split_words
from tests.make_minilm import MODEL_PACKAGE, dealt_to_heads, model_folder, table_file


@pytest.fixture(scope="module")
def minilm() -> VectorTable:
    return open_table()


def attention_of(table: VectorTable, text: str, word: str) -> dict[str, float]:
    """The weights of `word` on each word of the text: x as q, k and v, scale 1/sqrt(head size), the mean over heads."""
    rows = [table.index(found) for found, _, _ in split_words(text, table)]
    x = table.vectors[rows].astype(np.float64).reshape(len(rows), table.heads, -1).transpose(1, 0, 2)
    scores = x @ x.transpose(0, 2, 1) / np.sqrt(x.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    words = [found for found, _, _ in split_words(text, table)]
    return dict(zip(words, weights.mean(axis=0)[words.index(word)].tolist(), strict=True))


def nearest(table: VectorTable, vector: np.ndarray, count: int) -> list[str]:
    cosines = table.vectors @ vector / np.linalg.norm(table.vectors, axis=1)
    return [table.words[row] for row in np.argsort(-cosines)[:count]]


def test_bank_looks_to_the_river(minilm: VectorTable) -> None:
    weights = attention_of(minilm, "he sat on the river bank", "bank")
    assert 0.5 < weights.pop("bank") < 0.7  # 0.60: it stands out, and leaves room for the others
    assert weights.pop("river") > 0.13  # 0.141
    assert max(weights.values()) < 0.075  # he 0.071, half of what the river gets


def test_bank_looks_to_the_loan(minilm: VectorTable) -> None:
    weights = attention_of(minilm, "the bank approved my loan application", "bank")
    assert 0.45 < weights.pop("bank") < 0.65  # 0.54
    assert weights.pop("loan") > 0.15  # 0.155
    assert max(weights.values()) < 0.09  # approved 0.087


def test_apple_looks_to_the_phone(minilm: VectorTable) -> None:
    weights = attention_of(minilm, "I love apple phone", "apple")
    assert 0.55 < weights.pop("apple") < 0.75  # 0.65
    assert weights.pop("phone") > 0.16  # 0.169
    assert max(weights.values()) < 0.1  # love 0.097


@pytest.mark.parametrize(
    ("text", "word", "companion"),
    [
        ("the king and queen ruled a country", "queen", "king"),
        ("she poured water from the bottle into a cup", "water", "bottle"),
        ("the doctor treated a patient in this hospital", "doctor", "hospital"),
        ("he hit the ball with a bat", "bat", "ball"),
        ("paris is the capital of france", "paris", "france"),
        ("the mouse clicked on a computer screen", "mouse", "computer"),
        ("i eat an apple and a banana", "apple", "banana"),
        ("the teacher gave students a book to read", "teacher", "students"),
    ],
)
def test_a_word_looks_to_its_companion_before_any_other(
    minilm: VectorTable, text: str, word: str, companion: str
) -> None:
    weights = attention_of(minilm, text, word)
    del weights[word]
    assert max(weights, key=weights.__getitem__) == companion


def test_words_with_little_to_say_look_everywhere(minilm: VectorTable) -> None:
    weights = attention_of(minilm, "he sat on the river bank", "the")
    assert max(weights.values()) < 0.2  # even would be 1/6 = 0.167; "the" gives itself 0.19


def test_king_less_man_plus_woman_is_queen(minilm: VectorTable) -> None:
    king, man, woman = (minilm.vectors[minilm.index(word)] for word in ("king", "man", "woman"))
    # king itself is nearer than any other word, as in every such table
    assert nearest(minilm, king - man + woman, 2) == ["king", "queen"]


def test_the_words_next_to_bank_are_about_money(minilm: VectorTable) -> None:
    close = nearest(minilm, minilm.vectors[minilm.index("bank")], 8)
    assert close[0] == "bank"
    assert {"banks", "banking", "banker", "money"} <= set(close)


def test_the_default_is_minilm() -> None:
    assert open_table("").words == open_table("minilm").words


def test_what_the_table_holds(minilm: VectorTable) -> None:
    assert minilm.vectors.shape == (22_016, 64)
    assert len(set(minilm.words)) == 22_016
    assert sum(word.isalpha() for word in minilm.words) == 21_745
    assert not any(word.startswith("##") or (word.startswith("[") and len(word) > 1) for word in minilm.words)
    assert minilm.heads == 4


def test_vectors_are_kept_as_in_the_file_and_computed_with_in_float32(minilm: VectorTable) -> None:
    assert minilm.vectors.dtype == np.float16  # half the memory of every run on the table
    assert minilm.rows([0, 1]).dtype == np.float32
    assert all(vectors.dtype == np.float32 for _, _, vectors in minilm.blocks())


def test_case_is_forgiven_and_a_missing_word_is_none(minilm: VectorTable) -> None:
    assert minilm.index("Paris") == minilm.index("paris") is not None
    assert minilm.index("2012") is not None
    assert minilm.index("blorptastic") is None
    assert minilm.index("") is None


def test_the_heads_have_fair_shares(minilm: VectorTable) -> None:
    variance = minilm.vectors.astype(np.float64).reshape(-1, 4, 16).var(axis=0).sum(axis=1)
    share = variance / variance.sum()
    assert np.all((share > 0.23) & (share < 0.27))


def test_a_typical_vector_has_length_five(minilm: VectorTable) -> None:
    letters = [row for row, word in enumerate(minilm.words) if word.isalpha()]
    squares = (minilm.vectors[letters].astype(np.float64) ** 2).sum(axis=1)
    # entries are rounded to 1/256, which moves a mean over 22,000 words of 64 entries by far less than 0.001
    assert np.sqrt(squares.mean()) == pytest.approx(5, abs=0.001)


def test_the_file_is_small_plain_and_half_precision() -> None:
    assert MINILM_FILE.stat().st_size <= 3_000_000
    with zipfile.ZipFile(MINILM_FILE) as archive:
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_STORED}
    with np.load(MINILM_FILE, allow_pickle=False) as file:
        assert file["words"].dtype == np.uint8
        assert file["vectors"].dtype == np.float16
        steps = file["vectors"].astype(np.float64) * 256
    assert np.array_equal(steps, np.round(steps))


def test_the_licence_lies_beside_the_file() -> None:
    licence = MINILM_FILE.with_name("LICENSE-minilm").read_text(encoding="utf-8")
    assert "sentence-transformers/all-MiniLM-L6-v2" in licence
    assert "Apache License" in licence


def test_columns_are_dealt_forth_and_back() -> None:
    columns = np.arange(16.0)[None, :]
    # dealt to heads 0 1 2 3, then 3 2 1 0, then 0 1 2 3, then 3 2 1 0
    assert dealt_to_heads(columns)[0].reshape(4, 4).tolist() == [
        [0, 7, 8, 15],
        [1, 6, 9, 14],
        [2, 5, 10, 13],
        [3, 4, 11, 12],
    ]


@pytest.mark.skipif(find_spec(MODEL_PACKAGE) is None, reason="the model that the table is made from is not installed")
def test_the_file_is_made_again_byte_for_byte() -> None:
    assert table_file(model_folder()) == MINILM_FILE.read_bytes()
