"""The shipped word table: its file, and the texts that it is there to make plain."""

import zipfile
from importlib.util import find_spec

import numpy as np
import pytest

from attn_cli.sources.tables import MINILM_FILE, VectorTable, open_table
from attn_cli.sources.tables.source import split_words
from tests.make_minilm import MODEL_PACKAGE, model_folder, table_file


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


@pytest.mark.parametrize(
    ("text", "word", "companion"),
    [
        ("he sat on the river bank", "bank", "river"),
        ("the bank approved my loan application", "bank", "loan"),
        ("I love apple phone", "apple", "phone"),
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


def test_what_the_table_holds(minilm: VectorTable) -> None:
    assert minilm.vectors.shape == (22_016, 64)
    assert len(set(minilm.words)) == 22_016
    assert sum(word.isalpha() for word in minilm.words) == 21_745
    assert not any(word.startswith("##") or (word.startswith("[") and len(word) > 1) for word in minilm.words)
    assert minilm.heads == 4


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


@pytest.mark.skipif(find_spec(MODEL_PACKAGE) is None, reason="the model that the table is made from is not installed")
def test_the_file_is_made_again_byte_for_byte() -> None:
    assert table_file(model_folder()) == MINILM_FILE.read_bytes()
