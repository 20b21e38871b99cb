"""A Rich console that prints into memory, and what it has printed as text for a screen."""

import io

from rich.console import Console

from attn_cli.views.drawing.ascii import marks_in_ascii
from attn_cli.views.drawing.screen import Screen


def console_for(screen: Screen, *, record: bool = False) -> Console:
    """A Rich console that prints for `screen` into memory, without queries to the real terminal."""
    return Console(
        file=io.StringIO(),
        width=screen.width,
        height=1000,
        color_system={"truecolor": "truecolor", "256": "256", "16": "standard"}.get(screen.depth),  # type: ignore[arg-type]
        force_terminal=screen.depth != "none",
        no_color=screen.depth == "none",
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        record=record,
        _environ={},
    )


def printed_text(console: Console, screen: Screen) -> str:
    """What the console has printed: without colours no line ends in spaces, for ASCII our own marks are replaced."""
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    text = "\n".join(line.rstrip() for line in text.split("\n")) if screen.depth == "none" else text
    return marks_in_ascii(text) if screen.ascii_only else text
