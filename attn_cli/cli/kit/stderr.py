"""Output on stderr: errors, warnings, notes, and a status line during slow work."""

import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from attn_cli.text import visible
from attn_cli.views.drawing.cells import fit


def print_line(line: str) -> None:
    """Print one line to stderr, made safe for a terminal. If stderr can't be written, the line is dropped."""
    with suppress(OSError):
        print(visible(line), file=sys.stderr)


def print_notes(notes: Iterable[str], *, quiet: bool) -> None:
    """Print warnings and notes, one line each, unless `quiet`."""
    if not quiet:
        for note in notes:
            print_line(f"attn: {note}")


@contextmanager
def status_line(message: str, *, quiet: bool) -> Iterator[None]:
    """Context manager: shows `message` on stderr while its block runs; only on a terminal and unless `quiet`."""
    on_terminal = not quiet and sys.stderr.isatty()
    width = shutil.get_terminal_size().columns - 1
    if on_terminal:
        print(f"\r{fit(message, width).rstrip()}", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if on_terminal:
            print(f"\r{' ' * width}\r", end="", file=sys.stderr, flush=True)  # no escape code: any terminal can do this
