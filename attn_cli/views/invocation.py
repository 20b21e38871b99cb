"""Command lines: the one that an answer belongs to, and words as a person may type or paste them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from attn_cli.text import visible

_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "'": "\\'", "\\": "\\\\"}


@dataclass(frozen=True)
class Invocation:
    """The words of arguments and options by parameter, arguments first; an option's first word is its flag."""

    given: Mapping[str, tuple[str, ...]]
    takes: Collection[str] = ()  # all parameters of the command

    def has(self, name: str) -> bool:
        """True if the argument or option of that parameter name, such as "layer", was given."""
        return name in self.given

    def value(self, name: str) -> str | None:
        """The last word of the argument or option of that parameter name; None where it was not given."""
        words = self.given.get(name)
        return words[-1] if words else None

    def words(self, names: Collection[str]) -> list[str]:
        """The command-line words of the given arguments and options that are among `names`, in the order of --help."""
        return [word for name, words in self.given.items() if name in names for word in words]

    def words_without(self, names: Collection[str]) -> list[str]:
        """The words of all arguments and options but those among `names`, in the order of --help."""
        return [word for name, words in self.given.items() if name not in names for word in words]


def on_texts(name: str, texts: Sequence[str], options: Sequence[str]) -> list[str]:
    """The command line of `name` with texts and options; where a text begins with -, texts stand last, after --."""
    if any(text.startswith("-") for text in texts):
        return [name, *options, "--", *texts]
    return [name, *texts, *options]


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
