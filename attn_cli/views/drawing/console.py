"""Rich renderables as the text of a screen, and the Rich console that prints them into memory."""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme

from attn_cli.views.drawing.ascii import marks_in_ascii
from attn_cli.views.drawing.screen import Screen


@dataclass(frozen=True)
class UnbrokenLine:
    """A command line `text`, which a narrow terminal goes on with on its next row, so that it is copied whole."""

    text: str
    style: Style

    def __str__(self) -> str:
        return self.text

    def __rich_console__(self, console: object, options: object) -> Iterator[Segment]:
        yield Segment(self.text, self.style)
        yield Segment.line()


def console_for(screen: Screen, *, record: bool = False) -> Console:
    """A Rich console that prints for `screen` into memory, without queries to the real terminal."""
    return Console(
        file=io.StringIO(),
        width=screen.width,
        height=1000,
        color_system={"truecolor": "truecolor", "256": "256", "16": "standard"}.get(screen.depth),  # type: ignore[arg-type]
        force_terminal=screen.depth != "none",
        force_jupyter=False,  # in a notebook it would display each line beside what it keeps
        no_color=screen.depth == "none",
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        record=record,
        _environ={},
    )


def printed(renderables: Iterable[RenderableType], screen: Screen, theme: Theme | None = None) -> str:
    """What a terminal like `screen` gets for renderables, one below the other, with escape codes if it has colours."""
    console = console_for(screen)
    if theme is not None:
        console.push_theme(theme)
    for renderable in renderables:
        plain = _as_it_is(renderable, screen)
        if plain is None:
            console.print(renderable, soft_wrap=False, crop=not isinstance(renderable, UnbrokenLine))
        else:
            console.file.write(f"{plain}\n")
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    text = "\n".join(line.rstrip() for line in text.split("\n")) if screen.depth == "none" else text
    return marks_in_ascii(text) if screen.ascii_only else text


def _as_it_is(renderable: RenderableType, screen: Screen) -> str | None:
    if screen.depth != "none" or not isinstance(renderable, Text):
        return "" if renderable == "" else None
    plain = renderable.plain
    return plain if "\t" not in plain and all(cell_len(line) <= screen.width for line in plain.split("\n")) else None
