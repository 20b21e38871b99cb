"""The status line on stderr while a command works: a status, a clock, a count; only on a terminal."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

from attn_cli.cli.kit.stderr.lines import broken_between_words, status_lines
from attn_cli.interrupts import last_words

_TICK = 1.0  # seconds


class StatusLine:
    """Context manager: a line that replaces itself while its block runs, and is removed at the end.

    text   shown from the beginning; "" for nothing
    quiet  never show anything
    last   gives what is said in its place where a signal ends the process; "" for nothing
    """

    def __init__(self, text: str = "", *, quiet: bool, last: Callable[[], str] = str) -> None:
        self.text, self.last = text, last
        self.on_terminal = not quiet and sys.stderr.isatty()
        self.shown = False
        self._ended = threading.Event()
        self._clock: threading.Thread | None = None

    def __enter__(self) -> "StatusLine":
        """Show the text, if there is one."""
        if self.on_terminal:
            last_words.append(self._end_at_once)
            status_lines.append(self._clear)
        if self.text:
            self.set(self.text)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Remove the line."""
        self.wipe()
        if self.on_terminal:
            last_words.remove(self._end_at_once)
            status_lines.remove(self._clear)

    def set(self, text: str) -> None:
        """Show a text in place of what is there; the cursor stays at its end, where ^C still fits."""
        if not self.on_terminal:
            return
        from attn_cli.views.drawing.cells import fit  # here: it loads Rich, and --help says nothing on stderr

        line = fit(text, shutil.get_terminal_size().columns - len("^C") - 1)
        self.shown = True
        print(f"\r{line}  \r{line.rstrip()}", end="", file=sys.stderr, flush=True)

    def tick(self, text: str, *, after: float = 0.0) -> None:
        """Show a text, and after it the seconds that have passed, until the line is wiped.

        after  seconds in which nothing is shown, and nothing at all where the line is wiped before
        """
        if not after:
            self.set(text)
        if self.on_terminal:
            self._clock = threading.Thread(target=self._count, args=(text, time.monotonic(), after), daemon=True)
            self._clock.start()

    def wipe(self) -> None:
        """Remove what is shown, without an escape code: any terminal can do this."""
        self._ended.set()
        if self._clock is not None:
            self._clock.join()
        self._clear()

    def _clear(self) -> None:
        """Blank the line; a clock goes on."""
        if self.shown:
            print(_blank(), end="", file=sys.stderr, flush=True)
        self.shown = False

    def _count(self, text: str, start: float, after: float) -> None:
        if after:
            if self._ended.wait(after):
                return
            self.set(text)
        while not self._ended.wait(_TICK):
            self.set(f"{text} · {time.monotonic() - start:.0f} s")

    def _end_at_once(self) -> None:
        """As a signal's handler may: without Python's own buffers."""
        said = self.last()
        lines = broken_between_words(said, shutil.get_terminal_size().columns) if said else []
        if self.shown or lines:
            os.write(2, (_blank() + "".join(f"{line}\n" for line in lines)).encode())


def _blank() -> str:
    return f"\r{' ' * (shutil.get_terminal_size().columns - 1)}\r"
