"""Pieces of long documents: no longer than asked for, together the document, with the tokens that they had in it."""

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_cli.errors import InputError
from attn_cli.prompt import EncodedText
from attn_cli.sources.corpora import Document, pieces_of

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
