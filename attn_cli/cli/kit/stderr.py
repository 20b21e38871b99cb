"""What goes to stderr: errors, warnings and notes, and a line that says what is being waited for."""

import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from attn_cli.text import visible
from attn_cli.views.drawing.cells import fit


def print_line(line: str) -> None:
    """Print one line to stderr, made safe for a terminal. A stderr that can't be written is no reason to fail."""
    with suppress(OSError):
        print(visible(line), file=sys.stderr)


def print_notes(notes: Iterable[str], *, quiet: bool) -> None:
    """Print warnings and notes, one line each, unless `quiet`."""
    if not quiet:
        for note in notes:
            print_line(f"attn: {note}")


@contextmanager
def status_line(message: str, *, quiet: bool) -> Iterator[None]:
    """Show `message` on stderr while the block runs, and take it away again; only on a terminal, unless `quiet`."""
    on_terminal = not quiet and sys.stderr.isatty()
    width = shutil.get_terminal_size().columns - 1
    if on_terminal:
        print(f"\r{fit(message, width).rstrip()}", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if on_terminal:
            print(f"\r{' ' * width}\r", end="", file=sys.stderr, flush=True)  # no escape code: any terminal can do this
