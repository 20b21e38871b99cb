"""The command line that an answer belongs to, from which that of the next question is made."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class GivenValue:
    """An argument or option that was given: the name of its parameter, and its words on the command line.

    An option's first word is its flag, as in ("--top", "3"); an argument has its values alone.
    """

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Invocation:
    """The arguments and options of the command line, in the order of --help: arguments first."""

    given: tuple[GivenValue, ...]

    def has(self, name: str) -> bool:
        """True if the argument or option of that parameter name, such as "layer", was given."""
        return any(given.name == name for given in self.given)

    def value(self, name: str) -> str | None:
        """The last word of the argument or option of that parameter name; None where it was not given."""
        return next((given.words[-1] for given in self.given if given.name == name and given.words), None)

    def words(self, names: Collection[str]) -> list[str]:
        """The command-line words of the given arguments and options that are among `names`, in the order of --help."""
        return [word for given in self.given if given.name in names for word in given.words]

    def without(self, names: Collection[str]) -> "Invocation":
        """The invocation without the arguments and options among `names`, such as "layer"."""
        return Invocation(tuple(given for given in self.given if given.name not in names))

    def words_without(self, names: Collection[str]) -> list[str]:
        """The words of all arguments and options but those among `names`, in the order of --help."""
        return [word for given in self.given if given.name not in names for word in given.words]
