"""The pictures that the terminal shows: asked of it, unless a person chose."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

from attn_cli.ranks import rank
from attn_cli.views.graphics.choices import PROTOCOLS
from attn_cli.views.graphics.conversation import answers
from attn_cli.views.graphics.graphics import USUAL_CELL, Graphics
from attn_cli.views.graphics.sixel import MOST_COLORS, can_be_made

_MUTE = re.compile(r"(dumb|linux|eterm|emacs)")  # without pictures, and some would show the questions
_MULTIPLEXER = re.compile(r"(screen|tmux)")
# Whether it would show a picture of one pixel; what a terminal writes that knows no such question is wiped.
_KITTY = "\x1b7\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b8\x1b[K"
_NAME = "\x1b[>q"
_CELL = "\x1b[16t"
_COLORS = "\x1b[?1;1;0S"  # registers of colours
_IMAGES = re.compile(rb"\x1bP>\|(iTerm2|WezTerm|mintty) ")  # names of terminals that know iTerm2's images
_SIXEL = b"4"  # among the attributes, behind the terminal's class


def graphics_of_terminal(chosen: str = "auto") -> Graphics | None:
    """How the terminal at standard output shows pictures; None where it shows none.

    chosen  auto to ask it, blocks for no pictures, or one protocol whatever it says: kitty, iterm or sixel
    """
    if chosen == "blocks" or rank() or not _is_terminal() or _is_plain():
        return None
    if chosen in PROTOCOLS:
        return None if chosen == "sixel" and not can_be_made() else _in_detail(chosen, asks=False)
    in_multiplexer = bool(os.environ.get("TMUX") or _MULTIPLEXER.match(os.environ.get("TERM", "")))
    said = answers(("" if in_multiplexer else _KITTY) + _NAME)  # tmux takes kitty's question for the title of its pane
    if said is None:
        return None
    if b"\x1b_Gi=31;OK" in said:
        return _in_detail("kitty", asks=True)
    if _IMAGES.search(said) and not in_multiplexer:
        return _in_detail("iterm", asks=True)
    attributes = re.search(rb"\x1b\[\?([\d;]*)c", said)
    if attributes is None or _SIXEL not in attributes[1].split(b";")[1:] or not can_be_made():
        return None
    return _in_detail("sixel", asks=True) if not os.environ.get("TMUX") or _tmux_shows_sixels() else None


def resized(graphics: Graphics | None) -> Graphics | None:
    """A terminal's way to show pictures, with the size in pixels that its cells have now; None stays None."""
    cell = _measured()
    return graphics if graphics is None or cell is None else replace(graphics, cell=cell)


def _is_terminal() -> bool:
    """True if standard output is a terminal itself, and nothing that only says so."""
    try:
        return sys.stdout is not None and os.isatty(sys.stdout.fileno())
    except (OSError, ValueError):  # ValueError: it is no file, or closed
        return False


def _is_plain() -> bool:
    """True where nobody looks, or a person wants words: in CI, with NO_COLOR, on terminals that show no picture."""
    if os.environ.get("CI", "").lower() not in ("", "0", "false") or os.environ.get("NO_COLOR"):
        return True
    return bool(_MUTE.match(os.environ.get("TERM", ""))) or os.environ.get("TERM_PROGRAM") == "Apple_Terminal"


def _in_detail(protocol: str, *, asks: bool) -> Graphics:
    """The size of cells and the number of colours: as measured, as the terminal says, else what is usual."""
    cell, colors = _measured(), MOST_COLORS
    questions = ("" if cell else _CELL) + (_COLORS if protocol == "sixel" else "")
    said = (answers(questions) if questions and asks else None) or b""
    if found := re.search(rb"\x1b\[6;([1-9]\d*);([1-9]\d*)t", said):
        cell = int(found[2]), int(found[1])
    if found := re.search(rb"\x1b\[\?1;0;([1-9]\d*)S", said):
        colors = min(max(int(found[1]), 2), MOST_COLORS)
    return Graphics(protocol, cell or USUAL_CELL, colors)


def _measured() -> tuple[int, int] | None:
    """Width and height of a cell in pixels, as the system knows the window; None where it doesn't."""
    if sys.platform == "win32":
        return None
    import struct
    from fcntl import ioctl
    from termios import TIOCGWINSZ

    try:
        lines, columns, width, height = struct.unpack("HHHH", ioctl(sys.stdout.fileno(), TIOCGWINSZ, bytes(8)))
    except (OSError, ValueError):  # ValueError: it is no file
        return None
    cell = (width // columns, height // lines) if columns and lines else (0, 0)
    return cell if min(cell) else None


def _tmux_shows_sixels() -> bool:
    """True if the terminal around tmux shows sixels: tmux itself knows them whether it does or not."""
    tmux = shutil.which("tmux")
    if tmux is None:
        return False
    asked = [tmux, "display-message", "-p", "#{client_termfeatures}"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=1, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "sixel" in said.stdout.strip().split(",")
