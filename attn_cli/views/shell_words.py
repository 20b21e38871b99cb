"""Command lines as a person may type or paste them: words in shell quotes where they need them."""

from collections.abc import Sequence
from shlex import quote

from attn_cli.text import visible

_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "'": "\\'", "\\": "\\\\"}


def command_line(words: Sequence[str]) -> str:
    """The command line of `attn` with these words, in full."""
    return " ".join(["attn", *map(quoted, words)])


def quoted(word: str) -> str:
    """One word in shell quotes if it needs them: double ones unless something in it has a meaning there."""
    if visible(word) != word:
        return "$'" + "".join(map(_escaped, word)) + "'"
    plain = quote(word) == word or set(word) & set('"$`\\!')
    return quote(word) if plain else f'"{word}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if visible(character) == character:
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 1 << 16 else f"\\U{ord(character):08x}"
