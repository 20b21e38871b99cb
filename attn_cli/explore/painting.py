"""What a terminal is told so that it shows other lines: only the cells that differ, and only the colours that change.

Textual writes the lines of a widget from their first column on, each segment with all of its style and a reset: three
times the bytes for a move of the cursor, and three whole screens at the start.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from rich.cells import cell_len
from rich.style import Style

from attn_cli.explore.panes.lines import Line

Cell: TypeAlias = tuple[str, Style | None]
"""A column of a line: its character, with the marks on it, and its style; "" in the second column of a wide one."""

_DEFAULT = ("39", "49")  # the terminal's own foreground and background
_JUMP = 4  # columns: to go over fewer takes more bytes than they do
_SWAPPED = {"▀": "▄", "▄": "▀"}  # the half that is drawn in the foreground
_ATTRIBUTES = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7"}


class _Look(NamedTuple):
    """A style as the numbers of its escape codes: bold and its like, the colour of text, and the one behind it."""

    attributes: str
    foreground: str
    background: str


_PLAIN = _Look("", *_DEFAULT)


class Painting:
    """What a terminal shows by now."""

    def __init__(self) -> None:
        self._lines: Sequence[Line] = ()
        self._cells: list[list[Cell]] = []

    def forget(self, y: int | None = None) -> None:
        """Nobody knows what the terminal shows, or only what its line y is: that will be written again."""
        if y is None:
            self._lines, self._cells = (), []
        elif self._lines:
            self._lines = [*self._lines[:y], [], *self._lines[y + 1 :]]
            self._cells[y] = []

    def codes(self, lines: Sequence[Line]) -> str:
        """What is to be written so that it shows these lines, all as wide as the screen; "" for nothing."""
        pieces: list[str] = []
        now = _PLAIN
        is_new = len(lines) != len(self._lines)
        cells = [[] for _ in lines] if is_new else self._cells
        for y, new in enumerate(lines):
            if not is_new and new == self._lines[y]:
                continue
            before, cells[y] = cells[y], cells_of(new)
            column = -1
            for start, stop in _changed(before, cells[y]):
                pieces.append(f"\x1b[{start - column}C" if column >= 0 else f"\x1b[{y + 1};{start + 1}H")
                now = _write(cells[y][start:stop], now, pieces)
                column = stop
        self._lines, self._cells = lines, cells
        if now != _PLAIN:
            pieces.append("\x1b[0m")
        return "".join(pieces)


def cells_of(line: Line) -> list[Cell]:
    """The columns of a line."""
    return [(cell, style) for text, style, _ in line for cell in (text if text.isascii() else _columns(text))]


@lru_cache(maxsize=2**12)
def _columns(text: str) -> tuple[str, ...]:
    """What stands in each column of a text.

    >>> _columns("a字b")
    ('a', '字', '', 'b')
    """
    columns: list[str] = []
    for character in text:
        size = cell_len(character)
        if size == 0 and columns:
            at = -1 if columns[-1] else -2
            columns[at] += character
        else:
            columns += [character, ""][: max(size, 1)]
    return tuple(columns)


def _changed(before: Sequence[Cell], after: Sequence[Cell]) -> Iterator[tuple[int, int]]:
    """The columns start:stop that differ; what is between them as well, where it is little."""
    if len(before) != len(after):
        if after:
            yield 0, len(after)
        return
    spans: list[list[int]] = []
    for x in [x for x, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]:
        if spans and x - spans[-1][1] <= _JUMP:
            spans[-1][1] = x + 1
        else:
            spans.append([x, x + 1])
    for start, stop in spans:
        while start and not after[start][0]:  # a wide character is written whole
            start -= 1
        yield start, stop


def _write(cells: Sequence[Cell], now: _Look, pieces: list[str]) -> _Look:
    """Add the codes and characters of some columns to `pieces`; the look that the terminal is left with."""
    for style, run in groupby(cells, itemgetter(1)):
        text = "".join([cell for cell, _ in run])
        want = _PLAIN if style is None else _look(style)
        if text[:1] in _SWAPPED and not want.attributes:
            text, want = _cheaper(text, want, now)
        elif not want.attributes and text.isspace():
            want = _Look("", now.foreground, want.background)  # of blanks nobody sees the foreground
        if want != now:
            pieces.append(_turn(now, want))
            now = want
        pieces.append(text)
    return now


def _cheaper(text: str, want: _Look, now: _Look) -> tuple[str, _Look]:
    """Half blocks, drawn so that fewer colours change: the upper half in the foreground, or the lower one."""
    _, front, behind = want
    if front == _DEFAULT[0] or behind == _DEFAULT[1] or text.count(text[0]) < len(text):
        return text, want
    as_it_is = (front != now.foreground) + (behind != now.background)
    turned = (behind != now.foreground) + (front != now.background)
    if turned >= as_it_is:
        return text, want
    return _SWAPPED[text[0]] * len(text), _Look("", behind, front)


@lru_cache(maxsize=2**15)
def _turn(now: _Look, want: _Look) -> str:
    """The escape code from one look to another."""
    if want == _PLAIN:
        return "\x1b[0m"
    if now.attributes != want.attributes:
        start = ["0"] if now != _PLAIN else []
        codes = [*start, want.attributes, *(code for code in want[1:] if code not in _DEFAULT)]
    else:
        codes = [new for old, new in zip(now[1:], want[1:], strict=True) if old != new]
    return f"\x1b[{';'.join(filter(None, codes))}m"


@lru_cache(maxsize=2**15)
def _look(style: Style) -> _Look:
    """The codes of a style, whose colours are those of the terminal's depth."""
    front, behind = style.color, style.bgcolor
    return _Look(
        ";".join(code for name, code in _ATTRIBUTES.items() if getattr(style, name)),
        _DEFAULT[0] if front is None else ";".join(front.get_ansi_codes()),
        _DEFAULT[1] if behind is None else ";".join(behind.get_ansi_codes(foreground=False)),
    )
