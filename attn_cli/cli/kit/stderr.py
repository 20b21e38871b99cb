"""Output on stderr: lines, a status line while something slow runs, the progress of a run."""

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from attn_cli.interrupts import last_words
from attn_cli.text import counted, decimal_bytes, visible

if TYPE_CHECKING:  # --help and pipes show none
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_INDENT = " " * len("attn: ")
_MOST_LINE_NOTES = 20  # a corpus has as many notes as lines
_ENDED = b"\r\x1b[2K\x1b[?25h"  # the line blanked, and the cursor shown again


def print_line(line: str) -> None:
    """Print one line to stderr, made safe for a terminal, which gets it broken between words."""
    with suppress(OSError):
        whole = visible(line)
        width = shutil.get_terminal_size().columns if sys.stderr.isatty() else len(whole)
        print("\n".join(broken_between_words(whole, width)), file=sys.stderr)


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
        if "try: " in part:
            lines.append(f"{indent}{part}")
            continue
        wrapper = textwrap.TextWrapper(width, indent, _INDENT, break_long_words=False, break_on_hyphens=False)
        lines += wrapper.wrap(part)
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
                f"attn: {self.errors:,} of {count:,} lines have no answer, the first {_MOST_LINE_NOTES} are named"
            )

    def print(self, number: int, notes: Sequence[str]) -> None:
        """Print the notes on the text of this number, from 0."""
        if not self.lines:
            print_notes(notes, quiet=self.quiet)
        elif notes and self.left > 0:
            print_notes([f"line {number + 1}: {note}" for note in notes], quiet=self.quiet)
            self.left -= len(notes)
            if self.left <= 0:
                print_notes(["no more notes on lines here: --json has them all, as warnings"], quiet=self.quiet)


class StatusLine:
    """Context manager: a line, on a terminal, that says what runs; `total` is the work, None where unknown."""

    def __init__(self, text: str, total: float | None = None, *, quiet: bool) -> None:
        self.text, self.total = text, total
        self.is_shown = not quiet and sys.stderr.isatty()
        self._line: RichProgress | None = None

    def __enter__(self) -> Self:
        if self.is_shown:
            from rich.console import Console
            from rich.progress import Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.table import Column

            text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
            clock = TimeElapsedColumn() if self.total is None else TimeRemainingColumn()
            console = Console(stderr=True, color_system=None)
            self._line = Progress(
                text, clock, console=console, transient=True, redirect_stdout=False, refresh_per_second=4
            )
            self._task: TaskID = self._line.add_task(visible(self.text), total=self.total)
            self._line.start()
            last_words.append(_wipe)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._line is not None:
            self._line.stop()
            last_words.remove(_wipe)

    def say(self, text: str, *, more: float = 0.0) -> None:
        """Show a text in place of what is there, with so much more work done."""
        if self._line is not None:
            self._line.update(self._task, description=visible(text), advance=more)


def _wipe() -> None:
    os.write(2, _ENDED)


class Progress(StatusLine):
    """A status line that counts attention calls, of `layers` a text; with `verbose` time and memory are printed."""

    def __init__(
        self, layers: int, texts: int, earlier_texts: int, *, quiet: bool, verbose: bool, noun: str = "layer"
    ) -> None:
        self.layers, self.texts = layers, texts
        text = f"text {earlier_texts + 1} · " if earlier_texts or texts > 1 else ""
        self.words = f"{text}{noun} {{}} of {layers}"
        super().__init__(self.words.format(1), layers * texts, quiet=quiet or layers <= 1)
        self.verbose = verbose and not quiet
        self.calls, self.begun = 0, time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        super().__exit__(kind, *error)
        if self.verbose and kind is None:
            from attn_cli.sources.memory import peak_memory

            peak = peak_memory()
            memory = f", peak memory {decimal_bytes(peak)}" if peak else ""
            print_notes([f"ran in {time.monotonic() - self.begun:.2f} s{memory}"], quiet=False)

    def go_on(self, noun: str, done: int, count: int) -> None:
        """Count things that come after the layers: `done` more of them, out of `count`, are done."""
        if self._line is not None and done:
            self._line.advance(self._task, done)
        elif self._line is not None:
            self._line.reset(self._task, total=count, description=f"{count} {noun}")

    def step(self) -> None:
        """Count one more layer of one text."""
        self.calls += 1
        self.say(self.words.format(min(self.calls // self.texts + 1, self.layers)), more=1.0)
