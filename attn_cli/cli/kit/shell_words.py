"""Command lines as a person may type or paste them: words in shell quotes where they need them."""

from collections.abc import Sequence
from shlex import quote


def command_words(words: Sequence[str]) -> str:
    """The command line of `attn` with these words.

    >>> print(command_words(["inspect", "river bank", "-q"]))
    attn inspect "river bank" -q
    """
    return " ".join(["attn", *map(quoted, words)])


def quoted(word: str) -> str:
    """One word of a command line in shell quotes if it needs them; a long one cut."""
    plain = quote(word) == word or set(word) & set('"$`\\!')
    return quote(beginning(word)) if plain else f'"{beginning(word)}"'


def beginning(text: str) -> str:
    """The first 60 characters at most, with an ellipsis if the text is longer."""
    return text if len(text) <= 60 else f"{text[:59]}…"
