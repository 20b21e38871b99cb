"""A prompt and the tokens of its layers as an object of JSON, and back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from attn_cli.prompt import Generated, Prompt, Token, Word

Tokens = tuple[Token, ...]


class TokenTables:
    """The different sequences of tokens of a recording, each kept once: many layers have the same queries and keys."""

    def __init__(self) -> None:
        self.tables: list[Tokens] = []
        self._places: dict[int, int] = {}
        self._equal: dict[Tokens, int] = {}

    def place(self, tokens: Tokens) -> int:
        """The number, from 0, of these tokens among the sequences; they are added if they aren't there."""
        if id(tokens) not in self._places:
            place = self._equal.setdefault(tokens, len(self.tables))
            if place == len(self.tables):
                self.tables.append(tokens)
            self._places[id(tokens)] = place
        return self._places[id(tokens)]

    def document(self) -> dict[str, Any]:
        """The sequences as JSON: a token is a list of the values named in `_TOKEN`, and the number of its word."""
        tokens = [token for tokens in self.tables for token in tokens]
        words = {id(token.word): token.word for token in tokens if token.word is not None}  # one occurrence each
        numbers = {at: number for number, at in enumerate(words)}
        tables = [
            [[*(getattr(token, name) for name in _TOKEN), numbers.get(id(token.word))] for token in of_table]
            for of_table in self.tables
        ]
        return {"words": [word.text for word in words.values()], "tables": tables}


def tables_of_document(document: Mapping[str, Any]) -> list[Tokens]:
    """The sequences of tokens in a recording's JSON."""
    words = [Word(_text(text)) for text in document["words"]]
    return [tuple(_token(index, entry, words) for index, entry in enumerate(of)) for of in document["tables"]]


def prompt_document(prompt: Prompt, tables: TokenTables) -> dict[str, Any]:
    """A prompt as JSON: its text, and for each stack (encoder, decoder ...) the number of its tokens in `tables`."""
    own = tables.place(prompt.tokens)
    others = {stream: tables.place(tokens) for stream, tokens in prompt.others.items()}
    generated = None if prompt.generated is None else asdict(prompt.generated)
    template = {"template": list(prompt.template)} if prompt.template else {}
    about = {"text": prompt.text, "tokens": own, "others": others, "files": dict(prompt.files)}
    return {**about, "generated": generated, **template}


def prompt_of_document(
    document: Mapping[str, Any], tables: Sequence[Tokens], warnings: Sequence[str], pixels: np.ndarray | None
) -> Prompt:
    """The prompt in a recording's JSON; pixels are the picture `[height, width, 3]` in uint8, None without one."""
    if pixels is not None and (pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8 or not pixels.size):
        raise ValueError(f"a picture of {pixels.shape}")
    return Prompt(
        _text(document["text"]),
        tables[document["tokens"]],
        tuple(map(_text, warnings)),
        {_text(stream): tables[place] for stream, place in document["others"].items()},
        {_text(kind): _text(name) for kind, name in document["files"].items()},
        _generated(document["generated"]),
        pixels,
        tuple(int(token) for token in document.get("template", ())),
    )


def _generated(document: Mapping[str, Any] | None) -> Generated | None:
    if document is None:
        return None
    text, tokens, start = _text(document["text"]), int(document["tokens"]), _number(document["start"])
    return Generated(text, tokens, bool(document["ended"]), start, bool(document.get("given", False)))


def _token(index: int, entry: Sequence[Any], words: Sequence[Word]) -> Token:
    *values, word = entry
    fields: dict[str, Any] = {name: _TOKEN[name](value) for name, value in zip(_TOKEN, values, strict=True)}
    return Token(index, **fields, word=None if word is None else words[word])


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text: {value!r}")
    return value


def _number(value: object) -> int | None:
    if value is not None and not isinstance(value, int):
        raise TypeError(f"no number: {value!r}")
    return value


# the values of a token in a list, each with what reads it
_TOKEN: dict[str, Callable[[Any], Any]] = {
    **{"text": _text, "id": _number, "start": _number, "end": _number, "special": bool},
    **{"row": _number, "column": _number, "generated": bool, "image": _number},
}
