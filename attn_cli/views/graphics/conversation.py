"""Questions to the terminal, and its answers; what is typed meanwhile stays typed."""

import os
import re
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from attn_cli.interrupts import kept

_TERMINAL = Path("/dev/tty")
_PATIENCE = 0.5  # seconds that a terminal is waited for: an answer from the other side of the earth takes 0.3
_ATTRIBUTES = "\x1b[c"  # primary device attributes, which every terminal answers, and in the order of the questions
_LAST = re.compile(rb"\x1b\[\?[\d;]*c")
_ANSWER = re.compile(
    rb"\x1b_G[^\x1b]*\x1b\\"  # kitty's, on a picture
    rb"|\x1bP[^\x1b]*\x1b\\"  # a string, such as the terminal's name
    rb"|\x1b\[\?[\d;]*[cS]"  # attributes, and the registers of colours
    rb"|\x1b\[\d+;\d+;\d+t"  # a size
)


def answers(question: str) -> bytes | None:
    """What the terminal answers to `question`, an escape sequence, and to one for its attributes; None for no answer.

    None as well where there is no terminal, where the process is in its background, and where keys are typed already,
    which can't be told from an answer that comes behind them. Keys that are typed meanwhile are put back. The terminal
    echoes nothing, and is afterwards as it was; a signal is heeded then.
    """
    if sys.platform == "win32":
        return None
    early: list[int] = []
    try:
        with _TERMINAL.open("r+b", buffering=0) as terminal, kept(early):
            said = _asked(terminal.fileno(), question)
    except OSError:  # none
        return None
    for number in early:
        signal.raise_signal(number)
    return said


def _asked(terminal: int, question: str) -> bytes | None:
    import termios  # here: Windows has none

    if os.tcgetpgrp(terminal) != os.getpgrp():  # to change its settings would stop the process
        return None
    before = termios.tcgetattr(terminal)
    silent: list[Any] = [*before]
    silent[3] &= ~(termios.ECHO | termios.ICANON)
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, silent)
        if _waiting(terminal):
            return None
        os.write(terminal, (question + _ATTRIBUTES).encode())
        said = _heard(terminal)
        _put_back(terminal, _ANSWER.sub(b"", said))
        return said if _LAST.search(said) else None
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


def _waiting(terminal: int) -> int:
    """The bytes that are typed and not yet read."""
    from array import array
    from fcntl import ioctl
    from termios import FIONREAD

    count = array("i", [0])
    ioctl(terminal, FIONREAD, count)
    return count[0]


def _heard(terminal: int) -> bytes:
    """All bytes until the answer to the last question, or until nothing more is waited for."""
    from select import select

    said, end = b"", time.monotonic() + _PATIENCE
    while not _LAST.search(said):
        ready, _, _ = select([terminal], [], [], max(end - time.monotonic(), 0))
        if not ready:
            break
        said += os.read(terminal, 1024)
    return said


def _put_back(terminal: int, keys: bytes) -> None:
    """Type keys again for whoever reads next; they are lost where the system forbids it (`dev.tty.legacy_tiocsti`)."""
    from fcntl import ioctl
    from termios import TIOCSTI

    with suppress(OSError):
        for key in keys:
            ioctl(terminal, TIOCSTI, bytes([key]))
