"""Talk goes to stderr: errors, warnings, and a word before slow work."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from attn_cli.views.drawing.sanitise import fit, visible


def say(line: str) -> None:
    """One line on stderr; a stderr that can't be written is no reason to fail."""
    with suppress(OSError):
        print(visible(line), file=sys.stderr)


def tell(message: str, *, quiet: bool) -> None:
    """A warning or a note, unless `quiet`."""
    if not quiet:
        say(f"attn: {message}")


@contextmanager
def said(message: str, *, quiet: bool) -> Iterator[None]:
    """Show `message` on a terminal's stderr while the block runs, then take it away again."""
    shown = not quiet and sys.stderr.isatty()
    room = shutil.get_terminal_size().columns - 1
    if shown:
        print(f"\r{fit(message, room).rstrip()}", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print(f"\r{' ' * room}\r", end="", file=sys.stderr, flush=True)  # no escape code: any terminal can do this
