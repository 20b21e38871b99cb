"""Texts become words, and every word knows where it stood; the pencil-and-paper tables are whole."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli import open_source
from attn_cli.errors import ExitCode, InputError, LimitError
from attn_cli.sources.tables import TABLE_NAMES, open_table
from attn_cli.sources.tables.source import split_words


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


def test_a_word_is_found_in_any_case_its_own_first() -> None:
    table = open_table("my-name-is-ankit")
    assert table.index("Ankit") == table.index("ankit") == table.index("ANKIT") == 3
    assert table.index("mine") is None


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        open_table("minilmm")
    assert caught.value.message == "no built-in table is named 'minilmm'"
    assert all(name in caught.value.hint for name in TABLE_NAMES)
    assert caught.value.code == ExitCode.USAGE
