"""A line that is never broken, however narrow the screen: what people copy and paste."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style


@dataclass(frozen=True)
class WholeLine:
    """A command line, which a terminal that is too narrow goes on with on its next row."""

    height: ClassVar[int] = 1

    text: str
    style: Style

    def __rich_console__(self, console: object, options: object) -> Iterator[Segment]:
        """The text as it is."""
        yield Segment(f"{self.text}\n", self.style)
