"""A prompt and the tokens of its layers as an object of JSON, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attn_cli.fields import COUNT, FLAG, TEXT, Field, Object, Schema, each, made, object_schema, or_none
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

    def words(self) -> dict[int, tuple[int, str]]:
        """By the id() of each token's `Word`, one occurrence of a word in the text: a number from 0, and the word."""
        words: dict[int, tuple[int, str]] = {}
        for token in (token for tokens in self.tables for token in tokens if token.word is not None):
            assert token.word is not None
            words.setdefault(id(token.word), (len(words), token.word.text))
        return words

    def rows(self) -> list[list[list[Any]]]:
        """The tokens as JSON: for each sequence a list of tokens, each a list of its values."""
        words = self.words()
        return [[_token_document(token, words) for token in tokens] for tokens in self.tables]


_TOKEN = ("text", "id", "start", "end", "special", "row", "column", "generated", "image")
_COLUMNS = (*_TOKEN, "word")
TABLES = (
    Field("words", each(TEXT), "occurrences of words, which tokens name by number",
          lambda result: [text for _, text in result["tables"].words().values()]),
    Field("tables", each(each(each({}, count=len(_COLUMNS)), "a token")),
          f"sequences of tokens, each once: {', '.join(_COLUMNS)}", lambda result: result["tables"].rows()),
)  # fmt: skip


def tables_of_document(document: Mapping[str, Any]) -> list[Tokens]:
    """The sequences of tokens in a recording's JSON."""
    words = [Word(_text(text)) for text in document["words"]]
    return [tuple(_token(index, entry, words) for index, entry in enumerate(of)) for of in document["tables"]]


def _by_name(item: Schema) -> Schema:
    return {"type": "object", "additionalProperties": item}


_GENERATED = (
    Field("text", TEXT, "the text, exactly"),
    Field("tokens", COUNT, "how many tokens it has"),
    Field("ended", FLAG, "true if the model ended with its end token"),
    Field("start", or_none(COUNT), "first character in text; null where it isn't in it"),
    Field("given", FLAG, "true if the user gave it as the model's answer", optional=True),
)
_PROMPT = (
    Field("text", TEXT, "the text, exactly", "prompt.text"),
    Field("tokens", COUNT, "the table that holds its tokens"),
    Field("others", _by_name(COUNT), "the tables of streams that read something else, by stream"),
    Field("files", _by_name(TEXT), "file names of an image or audio, by kind",
          lambda placed: dict(placed["prompt"].files)),
    Field("generated", Object(_GENERATED, nullable=True), "what the model generated after the text; null for nothing",
          "prompt.generated"),
    Field("template", each(COUNT), "the tokens that the template of a chat put around its messages; missing where "
          "there are none", lambda placed: list(placed["prompt"].template) or None, optional=True),
)  # fmt: skip
PROMPT = object_schema(_PROMPT)


def prompt_document(prompt: Prompt, tables: TokenTables) -> dict[str, Any]:
    """A prompt as JSON: its text, and for each stack (encoder, decoder ...) the number of its tokens in `tables`."""
    own = tables.place(prompt.tokens)
    others = {stream: tables.place(tokens) for stream, tokens in prompt.others.items()}
    return made(_PROMPT, {"prompt": prompt, "tokens": own, "others": others})


def prompt_of_document(
    document: Mapping[str, Any], tables: Sequence[Tokens], warnings: Sequence[str], pixels: np.ndarray | None
) -> Prompt:
    """The prompt in a recording's JSON; pixels are the picture `[height, width]` in uint8, None without one."""
    generated = document["generated"]
    if pixels is not None and (pixels.ndim != 2 or pixels.dtype != np.uint8 or not pixels.size):
        raise ValueError(f"a picture of {pixels.shape}")
    return Prompt(
        _text(document["text"]),
        tables[document["tokens"]],
        tuple(map(_text, warnings)),
        {_text(stream): tables[place] for stream, place in document["others"].items()},
        {_text(kind): _text(name) for kind, name in document["files"].items()},
        None
        if generated is None
        else Generated(
            _text(generated["text"]),
            int(generated["tokens"]),
            bool(generated["ended"]),
            _number(generated["start"]),
            bool(generated.get("given", False)),
        ),
        pixels,
        template=tuple(int(token) for token in document.get("template", ())),
    )


def _token_document(token: Token, words: Mapping[int, tuple[int, str]]) -> list[Any]:
    word = None if token.word is None else words[id(token.word)][0]
    return [*(getattr(token, name) for name in _TOKEN), word]


def _token(index: int, entry: Sequence[Any], words: Sequence[Word]) -> Token:
    text, number, start, end, special, row, column, generated, image, word = entry
    return Token(
        index,
        _text(text),
        _number(number),
        _number(start),
        _number(end),
        bool(special),
        _number(row),
        _number(column),
        None if word is None else words[word],
        bool(generated),
        _number(image),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text: {value!r}")
    return value


def _number(value: object) -> int | None:
    if value is not None and not isinstance(value, int):
        raise TypeError(f"no number: {value!r}")
    return value
