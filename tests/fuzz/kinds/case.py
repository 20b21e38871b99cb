"""A case: a command line, what it reads, and what it must leave as it is."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Case:
    """One command in a folder.

    kept       files of the folder that may not change where the command ends in an error
    variables  of its environment
    """

    arguments: tuple[str, ...]
    stdin: bytes = b""
    kept: frozenset[str] = frozenset()
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def as_json(self) -> bool:
        return "--json" in self.arguments and "-o" not in self.arguments


Make = Callable[[Path, random.Random], Case]
"""Makes a case in an empty folder, the same for the same seed; what all cases of a kind share is made beforehand."""
