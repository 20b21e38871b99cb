"""Screens: width, colour depth and characters that the output can show."""

import os
import re
import shutil
from dataclasses import dataclass
from typing import TextIO

_MOST_DIGITS = 8  # of COLUMNS; a longer number is no width
_FORCED = {"2": "256", "3": "truecolor"}  # what numbers of FORCE_COLOR say of depth
_MONOCHROME = re.compile(r"(vt[0-9]|xterm-mono|ansi-mini|dumb)")  # terminals without colours, of terminfo
TALLEST = 40  # more rows than this are drawn two to a line, or pooled


@dataclass(frozen=True)
class Screen:
    """What the output can show; `depth` is "truecolor", "256", "16" or "none", `height` leaves the prompt a line."""

    width: int = 80
    depth: str = "none"
    ascii_only: bool = False
    height: int | None = None
    light: bool = False
    in_python: bool = False  # a notebook's, whose reader types no options

    def hint(self, options: str, python: str = "") -> list[str]:
        """What to type for more, as a part of a line: options of attn, or in a notebook Python; [] for nothing."""
        words = python if self.in_python else options
        return [words] if words else []

    @property
    def halves(self) -> bool:
        """True if one line can show two rows of cells: half blocks need two colours that are surely different."""
        return self.depth in ("truecolor", "256") and not self.ascii_only


def screen_of(stream: TextIO | None) -> Screen:
    """The screen behind `stream` (None for a file), from the terminal and the environment."""
    terminal = stream is not None and stream.isatty()
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and len(columns) < _MOST_DIGITS and stream is not None else 0
    if not width:
        width = shutil.get_terminal_size((80, 24)).columns if terminal else 80
    height = max(shutil.get_terminal_size((80, 24)).lines - 1, 8) if terminal else None
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower()
    ascii_only = not encoding.startswith(("utf", "cp65001"))
    depth = _depth(terminal) if _wants_color(terminal) else "none"
    light = os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
    return Screen(max(width, 20), depth, ascii_only, height, light)


def largest_map(screen: Screen) -> tuple[int, int]:
    """The rows and keys of the largest heat map: a key to a column beside the row labels, at least 8."""
    keys = max(8, screen.width - label_columns(screen) - 1)
    return keys if screen.halves else max(TALLEST, keys // 2), keys


def label_columns(screen: Screen) -> int:
    """The most columns that row labels get: a fifth of the screen, at least 8."""
    return max(8, screen.width // 5)


def _wants_color(terminal: bool) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0") or os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return terminal and os.environ.get("TERM") != "dumb"


def _depth(terminal: bool) -> str:
    if forced := _FORCED.get(os.environ.get("FORCE_COLOR", "")):
        return forced
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "truecolor"
    term = os.environ.get("TERM", "")
    if _MONOCHROME.match(term):
        return "none"
    if "256" in term or not (terminal or term):  # colour forced without a known terminal: nearly all have 256
        return "256"
    return "truecolor" if term.endswith("-direct") else "16"
