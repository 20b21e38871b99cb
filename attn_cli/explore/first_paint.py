"""The first picture: on the terminal before Textual is loaded, which takes half as long as all that comes before it.

It is drawn and written as all others are, and Textual goes on from there. What is typed meanwhile waits for it.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from attn_cli.explore.frame import draw
from attn_cli.explore.painting import Painting
from attn_cli.explore.panes.lines import Line
from attn_cli.explore.session import Session
from attn_cli.interrupts import kept

OWN_SCREEN, FORMER_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
_CURSOR_HIDDEN, _CURSOR_SHOWN, _HOME = "\x1b[?25l", "\x1b[?25h", "\x1b[H"


@dataclass
class FirstPaint:
    """What the terminal shows, and what came from it, when it is handed over.

    lines        those on the screen; none where the picture is left to Textual
    painting     what they took
    signals      those that came, still to be answered
    attributes   the terminal's as they were before, as termios has them; None where they are unknown
    handed_over  whether somebody else gives the terminal back
    """

    lines: list[Line] = field(default_factory=list)
    painting: Painting = field(default_factory=Painting)
    signals: list[int] = field(default_factory=list)
    attributes: list[Any] | None = None
    handed_over: bool = False

    def hand_over(self) -> bool:
        """Leave the terminal to another, who gives it back; whether it shows a picture that this one may keep.

        What that one asks a terminal, an old one shows as text, in the first line: where the cursor is.
        """
        is_kept, self.handed_over = bool(self.lines) and not self.handed_over, True
        self.painting.forget(0)
        return is_kept


@contextmanager
def first_paint(session: Session) -> Iterator[FirstPaint]:
    """Show a session; afterwards the terminal is as it was, and signals do what they did.

    Nothing is shown where the terminal's attributes are unknown, as on Windows.
    """
    first = FirstPaint(attributes=_attributes())
    with kept(first.signals):
        if first.attributes is None:
            yield first
            return
        import termios

        terminal = sys.stdin.fileno()
        try:
            termios.tcsetattr(terminal, termios.TCSANOW, _without_echo(first.attributes))
            columns, lines = shutil.get_terminal_size()
            session.resize(replace(session.scene.screen, width=columns, height=lines))
            first.lines = draw(session)
            _write(OWN_SCREEN + _CURSOR_HIDDEN + first.painting.codes(first.lines) + _HOME)
            yield first
        finally:
            with suppress(termios.error, OSError):  # of a terminal that is gone
                if not first.handed_over:
                    _write(FORMER_SCREEN + _CURSOR_SHOWN)
                termios.tcsetattr(terminal, termios.TCSANOW, first.attributes)


def _attributes() -> list[Any] | None:
    """The attributes of the terminal; None where they are unknown."""
    try:
        import termios
    except ImportError:
        return None
    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):  # no terminal after all, or no file
        return None


def _without_echo(attributes: list[Any]) -> list[Any]:
    """The attributes of a terminal that hands over every key as it is typed, and shows none."""
    import termios

    changed = list(attributes)
    changed[0] &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)
    changed[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
    changed[6] = list(attributes[6])
    changed[6][termios.VMIN] = 1
    return changed


def _write(codes: str) -> None:
    """Write to the terminal, all of it: where Textual writes, too."""
    data = codes.encode()
    while data:
        data = data[os.write(sys.__stderr__.fileno(), data) :]  # type: ignore[union-attr]
