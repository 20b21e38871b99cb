"""A prompt and the tokens of its layers as an object of JSON, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from attn_cli.prompt import Generated, Prompt, Token, Word

Tokens = tuple[Token, ...]


class TokenTables:
    """The token sequences of a recording, each once: many layers have the same queries and keys."""

    def __init__(self) -> None:
        self.tables: list[Tokens] = []
        self._places: dict[int, int] = {}
        self._equal: dict[Tokens, int] = {}

    def place(self, tokens: Tokens) -> int:
        """The number of the table that holds these tokens, which live as long as this object."""
        if id(tokens) not in self._places:
            place = self._equal.setdefault(tokens, len(self.tables))
            if place == len(self.tables):
                self.tables.append(tokens)
            self._places[id(tokens)] = place
        return self._places[id(tokens)]

    def document(self) -> dict[str, Any]:
        """All tables; tokens of one occurrence of a word share the number of that word."""
        words: dict[int, tuple[int, str]] = {}
        for token in (token for tokens in self.tables for token in tokens if token.word is not None):
            assert token.word is not None
            words.setdefault(id(token.word), (len(words), token.word.text))
        return {
            "words": [text for _, text in words.values()],
            "tables": [[_token_document(token, words) for token in tokens] for tokens in self.tables],
        }


def tables_of_document(document: Mapping[str, Any]) -> list[Tokens]:
    """The tables again; KeyError, TypeError, ValueError or IndexError for what is no such document."""
    words = [Word(_text(text)) for text in document["words"]]
    return [tuple(_token(index, entry, words) for index, entry in enumerate(entries)) for entries in document["tables"]]


def prompt_document(prompt: Prompt, tables: TokenTables) -> dict[str, Any]:
    """A prompt whose tokens are in `tables`."""
    written = prompt.generated
    return {
        "text": prompt.text,
        "tokens": tables.place(prompt.tokens),
        "others": {stream: tables.place(tokens) for stream, tokens in prompt.others.items()},
        "files": dict(prompt.files),
        "generated": None
        if written is None
        else {"text": written.text, "tokens": written.tokens, "ended": written.ended, "start": written.start},
    }


def prompt_of_document(document: Mapping[str, Any], tables: Sequence[Tokens], warnings: Sequence[str]) -> Prompt:
    """The prompt again, with its warnings; errors as for `tables_of_document`."""
    written = document["generated"]
    return Prompt(
        _text(document["text"]),
        tables[document["tokens"]],
        tuple(map(_text, warnings)),
        {_text(stream): tables[place] for stream, place in document["others"].items()},
        {_text(kind): _text(name) for kind, name in document["files"].items()},
        None
        if written is None
        else Generated(
            _text(written["text"]), int(written["tokens"]), bool(written["ended"]), _number(written["start"])
        ),
    )


_FIELDS = ("text", "id", "start", "end", "special", "row", "column", "piece", "generated")


def _token_document(token: Token, words: Mapping[int, tuple[int, str]]) -> list[Any]:
    """The fields of a token in the order of `_FIELDS`, and the number of its word."""
    return [*(getattr(token, name) for name in _FIELDS), None if token.word is None else words[id(token.word)][0]]


def _token(index: int, entry: Sequence[Any], words: Sequence[Word]) -> Token:
    text, number, start, end, special, row, column, piece, generated, word = entry
    return Token(
        index,
        _text(text),
        _number(number),
        _number(start),
        _number(end),
        bool(special),
        _number(row),
        _number(column),
        _number(piece),
        None if word is None else words[word],
        bool(generated),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text: {value!r}")
    return value


def _number(value: object) -> int | None:
    if value is not None and not isinstance(value, int):
        raise TypeError(f"no number: {value!r}")
    return value
