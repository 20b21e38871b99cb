"""What the output can show: width, colour depth, characters."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

DEPTHS = ("truecolor", "256", "16", "none")


@dataclass(frozen=True)
class Screen:
    """The place a rendering is for: columns, colour depth (one of `DEPTHS`), and whether only ASCII can be shown."""

    width: int = 80
    depth: str = "none"
    ascii_only: bool = False


def screen_of(stream: TextIO, color: str = "auto") -> Screen:
    """The screen behind `stream`, from the terminal, the environment and `--color auto|always|never`.

    Order: --color, then NO_COLOR, then FORCE_COLOR or CLICOLOR_FORCE, then whether the stream is a terminal and TERM
    is not "dumb". Depth comes from COLORTERM and TERM.
    """
    terminal = stream.isatty()
    width = int(os.environ.get("COLUMNS", "") or 0) if os.environ.get("COLUMNS", "").isdigit() else 0
    if not width:
        width = shutil.get_terminal_size((80, 24)).columns if terminal else 80
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower()
    ascii_only = not encoding.startswith(("utf", "cp65001"))
    return Screen(max(width, 20), _depth(terminal) if _wants_color(color, terminal) else "none", ascii_only)


def _wants_color(color: str, terminal: bool) -> bool:
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0") or os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return terminal and os.environ.get("TERM") != "dumb"


def _depth(terminal: bool) -> str:
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "truecolor"
    term = os.environ.get("TERM", "")
    if "256" in term or not (terminal or term):  # colour forced into a pipe that says nothing: nearly all have 256
        return "256"
    return "truecolor" if term.endswith("-direct") else "16"


def packed(parts: Sequence[str], width: int) -> list[str]:
    """Parts joined by " · " into as few lines of at most `width` as it takes; a line never breaks inside a part.

    >>> packed(["one", "two", "three"], 10)
    ['one · two', 'three']
    """
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 3 + len(part) <= width:
            lines[-1] += " · " + part
        else:
            lines.append(part)
    return lines
