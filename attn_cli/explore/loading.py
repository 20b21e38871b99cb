"""The keyboard while a model loads and reads: q ends the program, other keys are dropped."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from attn_cli.interrupts import end_at_once, last_words


@contextmanager
def keys_dropped() -> Iterator[None]:
    """Context manager: no key that is typed is shown or acts later; q does what Ctrl-C does."""
    if os.name == "nt" or not os.isatty(0):
        yield
        return
    import termios  # Windows has none

    before, quiet = termios.tcgetattr(0), termios.tcgetattr(0)
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    quiet[6][termios.VQUIT] = b"q"

    def restore() -> None:
        termios.tcsetattr(0, termios.TCSAFLUSH, before)

    handler = signal.signal(signal.SIGQUIT, lambda *_: end_at_once())
    termios.tcsetattr(0, termios.TCSAFLUSH, quiet)
    last_words.append(restore)
    try:
        yield
    finally:
        last_words.remove(restore)
        restore()
        signal.signal(signal.SIGQUIT, handler)
