"""Long documents cut into pieces of so many tokens, by the places that the tokenizer gives its tokens in the text."""

import re
from collections.abc import Callable, Iterator, Sequence

from attn_cli.errors import InputError
from attn_cli.prompt import Token
from attn_cli.sources.corpora.document import Document, TextField

Tokenize = Callable[[str], Sequence[Token]]

_NOT_SPACE = re.compile(r"\S")
_CHARACTERS = 32  # for each token of a piece: a window of the text has room for two pieces of words of 16 characters
_FEW, _MORE = 6, 400  # for each token, and beside: enough for a piece of most texts
_AFTER = 16  # tokens that must follow a piece in its window, as the last ones may be of a word that is cut


def pieces_of(document: Document, tokenize: Tokenize, size: int) -> Iterator[Document]:
    """The pieces that a long document is cut into, in order; a short document is its only piece."""
    text, start, number = document.text, 0, 0
    window = size * _CHARACTERS
    while (word := _NOT_SPACE.search(text, start)) is not None:
        start = start if word.start() < start + window else word.start() - 1
        for characters in (min(size * _FEW + _MORE, window), window):
            part = text[start : start + characters]
            tokens = tokenize(part)
            placed = [token for token in tokens if token.end is not None]
            room = size - (len(tokens) - len(placed))
            _check(size, room)
            whole = start + len(part) == len(text)
            if whole or len(placed) >= room + _AFTER:
                break
        if not placed or (whole and len(placed) <= room):
            end = start + len(part)
        else:
            end = start + _end(placed, _border(placed, min(room, len(placed))))
        yield _piece(document, number, start, end)
        if end == len(text):
            return
        start, number = end, number + 1


def _check(size: int, room: int) -> None:
    if room < 1:
        raise InputError(
            f"--chunk {size} has no room for text besides {size - room} tokens that the tokenizer adds",
            f"--chunk {size - room + 2} or more",
        )


def _border(tokens: Sequence[Token], count: int) -> int:
    for at in range(count, (count + 1) // 2, -1):
        if at == len(tokens) or tokens[at].word is None or tokens[at].word is not tokens[at - 1].word:
            return at
    return count


def _end(tokens: Sequence[Token], count: int) -> int:
    return tokens[count - 1].end or 0


def _piece(document: Document, number: int, start: int, end: int) -> Document:
    fields = tuple(
        TextField(max(field.start, start) - start, min(field.end, end) - start, field.name)
        for field in document.fields
        if field.start < end and field.end > start
    )
    return document._replace(text=document.text[start:end], fields=fields, piece=number, start=start)
