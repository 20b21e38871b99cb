"""Pieces of long documents: no longer than asked for, together the document, with the tokens that they had in it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.errors import InputError
from attn_cli.prompt import Token, Word
from attn_cli.sources.corpora import Document, RecordPlace, TextField, pieces_of

ADDED = 2  # tokens around every text


def tokenize(text: str) -> list[Token]:
    """Words in tokens of up to three letters, with the space before a word, between a token at each end."""
    tokens = [Token(0, "[CLS]", special=True)]
    for match in re.finditer(r"\s*\S+", text):
        word = Word(match[0])
        for start in range(match.start(), match.end(), 3):
            end = min(start + 3, match.end())
            tokens.append(Token(len(tokens), text[start:end], start=start, end=end, word=word))
    return [*tokens, Token(len(tokens), "[SEP]", special=True)]


def document(text: str, fields: tuple[TextField, ...] = ()) -> Document:
    return Document(3, RecordPlace("a.txt", 4), text, fields)


def words_of(text: str) -> list[str]:
    return [token.text for token in tokenize(text) if not token.special]


words = st.lists(st.text("abc", min_size=1, max_size=7), min_size=1, max_size=60).map(" ".join)


@given(words, st.integers(ADDED + 1, 30))
def test_pieces_are_the_document(text: str, size: int) -> None:
    pieces = list(pieces_of(document(text), tokenize, size))
    assert "".join(piece.text for piece in pieces) == text
    assert all(len(tokenize(piece.text)) <= size for piece in pieces)
    assert [(piece.number, piece.piece) for piece in pieces] == [(3, at) for at in range(len(pieces))]
    assert all(text.startswith(piece.text, piece.start) for piece in pieces)
    if size >= ADDED + 8:  # room for the longest word in the second half of a piece
        assert [word for piece in pieces for word in words_of(piece.text)] == words_of(text)


def test_a_window_is_all_that_is_tokenized() -> None:
    longest = 0

    def watched(text: str) -> list[Token]:
        nonlocal longest
        longest = max(longest, len(text))
        return tokenize(text)

    text = "ab " * 5_000 + " " * 50_000 + "end"
    pieces = list(pieces_of(document(text), watched, 64))
    assert longest < 3000
    assert pieces[-1].text == " end" and "".join(piece.text for piece in pieces).split() == text.split()


def test_fields_go_with_their_text() -> None:
    text = "abc abc\n\nabc abc abc"
    fields = (TextField(0, 7, "user"), TextField(9, 20, "assistant"))
    pieces = list(pieces_of(document(text, fields), tokenize, ADDED + 4))
    assert [[(piece.text[start:end], name) for start, end, name in piece.fields] for piece in pieces] == [
        [("abc abc", "user")],
        [("abc abc", "assistant")],
        [(" abc", "assistant")],
    ]


def test_a_size_that_cuts_nothing() -> None:
    with pytest.raises(InputError):
        list(pieces_of(document("abc " * 50), tokenize, 2))
