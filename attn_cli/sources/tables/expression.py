"""Sums and differences of words, as analogies are written: king - man + woman."""

import re
from typing import NamedTuple

from attn_cli.errors import InputError
from attn_cli.text import excerpt

_EXAMPLE = 'for example: attn nearest "king - man + woman"'
_SIGNS = {"+": 1, "-": -1, "−": -1, "–": -1}


class Term(NamedTuple):
    """One word with its sign (1 or -1), and where it stands: `text[start:end] == word`."""

    sign: int
    word: str
    start: int
    end: int


def split_terms(text: str) -> list[Term]:
    """The words of an expression with their signs.

    A sign stands alone or right before its word; inside a word it is part of the word, as in "co-operate".
    Raises InputError for words without a sign between them and for signs without a word.

    >>> [(term.sign, term.word) for term in split_terms("king - man +woman")]
    [(1, 'king'), (-1, 'man'), (1, 'woman')]
    """
    terms: list[Term] = []
    sign: int | None = 1
    for match in re.finditer(r"\S+", text):
        piece, start = match.group(), match.start()
        if len(piece) > 1 and piece[0] in _SIGNS and (sign is None or not terms):
            sign, piece, start = _SIGNS[piece[0]], piece[1:], start + 1
        if piece in _SIGNS and (sign is None or not terms):
            sign = _SIGNS[piece]
        elif piece in _SIGNS:
            raise InputError(f"two signs before a word in {excerpt(text)!r}", _EXAMPLE)
        elif sign is None:
            raise InputError(f"no + or - between {excerpt(terms[-1].word)!r} and {excerpt(piece)!r}", _EXAMPLE)
        else:
            terms.append(Term(sign, piece, start, match.end()))
            sign = None
    if not terms or sign is not None:
        raise InputError("no word" if not terms else f"{excerpt(text)!r} ends with a sign", _EXAMPLE)
    return terms


def with_signs_apart(text: str) -> str:
    """The expression with blanks around signs that stand inside words, as they were probably meant.

    >>> with_signs_apart("king-man+woman")
    'king - man + woman'
    """
    return re.sub(r"(?<=\w)[+-](?=\w)", lambda sign: f" {sign[0]} ", text)
