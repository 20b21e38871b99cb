"""The command line that an answer belongs to, from which that of the next question is made."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Invocation:
    """The words of arguments and options by parameter, arguments first; an option's first word is its flag."""

    given: Mapping[str, tuple[str, ...]]

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

    def without(self, names: Collection[str]) -> "Invocation":
        """The invocation without the arguments and options among `names`, such as "layer"."""
        return Invocation({name: words for name, words in self.given.items() if name not in names})

    def words_without(self, names: Collection[str]) -> list[str]:
        """The words of all arguments and options but those among `names`, in the order of --help."""
        return [word for name, words in self.given.items() if name not in names for word in words]
