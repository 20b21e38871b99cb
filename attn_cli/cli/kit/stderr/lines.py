"""Lines on stderr: errors, warnings and notes."""

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import suppress

from attn_cli.text import counted, visible

_INDENT = " " * len("attn: ")
_MOST_LINE_NOTES = 20  # a corpus has as many notes as lines


def print_line(line: str) -> None:
    """Print one line to stderr, made safe for a terminal, which gets it broken between words."""
    with suppress(OSError):
        whole = visible(line)
        width = shutil.get_terminal_size().columns if sys.stderr.isatty() else len(whole)
        lines = broken_between_words(whole, width)
        print("\n".join(lines), file=sys.stderr)


def broken_between_words(line: str, width: int) -> list[str]:
    """A line in lines of at most `width` columns, all but the first indented as hints are.

    >>> broken_between_words("attn: no page is named 'sinus'; one of sinks, tour    all topics: attn guide", 40)
    ["attn: no page is named 'sinus'; one of", '      sinks, tour', '      all topics: attn guide']
    """
    if len(line) <= width:
        return [line]
    lines: list[str] = []
    for part in line.strip().split("    "):
        if lines and len(lines[-1]) + 4 + len(part) <= width:
            lines[-1] += f"    {part}"
            continue
        indent = _INDENT if lines or line.startswith(_INDENT) else ""
        whole = [f"{indent}{part}"]
        lines += whole if "try: " in part else textwrap.wrap(
            part, width, initial_indent=indent, subsequent_indent=_INDENT,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return lines


def print_notes(notes: Iterable[str], *, quiet: bool) -> None:
    """Print warnings and notes, one line each, unless `quiet`."""
    if not quiet:
        for note in notes:
            print_line(f"attn: {note}")


class TextNotes:
    """Prints notes on texts and errors, the first 20 each; with `lines`, each names its line of the file."""

    def __init__(self, *, lines: bool, quiet: bool) -> None:
        self.lines, self.quiet = lines, quiet
        self.left = _MOST_LINE_NOTES
        self.errors = 0

    def error(self, number: int, message: str) -> None:
        """Print why the line of this number, from 0, has no answer."""
        self.errors += 1
        if self.errors <= _MOST_LINE_NOTES:
            print_line(f"attn: line {number + 1}: {message}")

    def end(self, count: int, blank: int) -> None:
        """Print how many of `count` lines have no answer, where not all of them were named, and how many are blank."""
        print_notes([f"{counted(blank, 'blank line')} left out"] * bool(blank), quiet=self.quiet)
        if self.errors > _MOST_LINE_NOTES:
            print_line(
                f"attn: {self.errors:,} of {count:,} lines have no answer; the first {_MOST_LINE_NOTES} are named"
            )

    def print(self, number: int, notes: Sequence[str]) -> None:
        """Print the notes on the text of this number, from 0."""
        if not self.lines:
            print_notes(notes, quiet=self.quiet)
        elif notes and self.left > 0:
            print_notes([f"line {number + 1}: {note}" for note in notes], quiet=self.quiet)
            self.left -= len(notes)
            if self.left <= 0:
                print_notes(["no more notes on lines here; --json has them all, as warnings"], quiet=self.quiet)
