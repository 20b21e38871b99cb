"""Output on stderr: errors, warnings, notes, and a status line during slow work."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from attn_cli.interrupts import last_words
from attn_cli.text import visible

_TICK = 1.0  # seconds
_MOST_LINE_NOTES = 20  # a corpus has as many notes as lines


def print_line(line: str) -> None:
    """Print one line to stderr, made safe for a terminal. If stderr can't be written, the line is dropped."""
    with suppress(OSError):
        print(visible(line), file=sys.stderr)


def print_notes(notes: Iterable[str], *, quiet: bool) -> None:
    """Print warnings and notes, one line each, unless `quiet`."""
    if not quiet:
        for note in notes:
            print_line(f"attn: {note}")


class TextNotes:
    """Prints the notes on texts. Of lines, each names its line, and after some the rest is left to machine output."""

    def __init__(self, *, lines: bool, quiet: bool) -> None:
        self.lines, self.quiet = lines, quiet
        self.left = _MOST_LINE_NOTES

    def print(self, number: int, notes: Sequence[str]) -> None:
        """Print the notes on the text of this number, from 0."""
        if not self.lines:
            print_notes(notes, quiet=self.quiet)
        elif notes and self.left > 0:
            print_notes([f"line {number + 1}: {note}" for note in notes], quiet=self.quiet)
            self.left -= len(notes)
            if self.left <= 0:
                print_notes(["no more notes on lines here; --json has them all, as warnings"], quiet=self.quiet)


def over_the_line(message: str) -> str:
    """What shows `message` in place of the line that the cursor is on, which stays at its end: ^C still fits there."""
    from attn_cli.views.drawing.cells import fit  # here: it loads Rich, and --help says nothing on stderr

    shown = fit(message, shutil.get_terminal_size().columns - len("^C") - 1)
    return f"\r{shown}  \r{shown.rstrip()}"


def blank_line() -> str:
    """What removes the line that the cursor is on, without an escape code: any terminal can do this."""
    return f"\r{' ' * (shutil.get_terminal_size().columns - 1)}\r"


@contextmanager
def status_line(message: str, *, quiet: bool) -> Iterator[None]:
    """Context manager: shows `message` on stderr while its block runs; only on a terminal and unless `quiet`."""
    on_terminal = not quiet and sys.stderr.isatty()
    wipe = partial(os.write, 2, blank_line().encode())
    if on_terminal:
        print(over_the_line(message), end="", file=sys.stderr, flush=True)
        last_words.append(wipe)
    try:
        yield
    finally:
        if on_terminal:
            last_words.remove(wipe)
            print(blank_line(), end="", file=sys.stderr, flush=True)


@contextmanager
def ticking_line(message: str, *, quiet: bool) -> Iterator[None]:
    """As `status_line`, with the seconds that have passed after the message."""
    with counting_line(message + "{}", quiet=quiet) as say:
        say("")
        start, done = time.monotonic(), threading.Event()

        def tick() -> None:
            while not done.wait(_TICK):
                say(f" · {time.monotonic() - start:.0f} s")

        thread = threading.Thread(target=tick, daemon=True)
        if not quiet and sys.stderr.isatty():
            thread.start()
        try:
            yield
        finally:
            done.set()
            if thread.is_alive():
                thread.join()


@contextmanager
def counting_line(message: str, *, quiet: bool) -> Iterator[Callable[[object], None]]:
    """Context manager: a function that shows `message` with its argument in place of {}, as `status_line` does."""
    with status_line("", quiet=quiet):
        on_terminal = not quiet and sys.stderr.isatty()

        def say(part: object) -> None:
            if on_terminal:
                print(over_the_line(message.replace("{}", str(part))), end="", file=sys.stderr, flush=True)

        yield say
