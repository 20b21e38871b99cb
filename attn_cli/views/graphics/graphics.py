"""The picture protocol of a terminal, and a picture as the escape codes that it draws."""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.segment import ControlType, Segment

from attn_cli.views.drawing.png import png
from attn_cli.views.graphics.sixel import MOST_COLORS, sixel

BEGINNING = "\x1b7"  # of a picture, and of nothing else: the cursor is kept
USUAL_CELL = (10, 20)  # pixels, those of the VT340
_CHUNK = 4096  # characters of base64 in one escape code of kitty's at most
_QUICK = 1  # of compression: the terminal is near
NUMBER = int.from_bytes(b"attn", "big")
"""The number by which kitty knows the one picture of the explorer; another of the same number takes its place."""


@dataclass(frozen=True)
class Graphics:
    """A terminal that shows pictures.

    protocol  "kitty", "iterm" or "sixel"
    cell      width and height of a cell in pixels
    colors    how many a picture in sixels may have
    """

    protocol: str
    cell: tuple[int, int] = USUAL_CELL
    colors: int = MOST_COLORS

    def size(self, columns: int, lines: int) -> tuple[int, int]:
        """Height and width, in pixels, of a rectangle of `columns` x `lines` cells of the terminal."""
        return lines * self.cell[1], columns * self.cell[0]

    def drawn(self, pixels: np.ndarray, columns: int, lines: int, *, replaces: bool = False) -> str:
        """The escape codes that draw a picture `[h, w, 3]` from the cursor on, over `columns` x `lines` cells.

        In sixels it has its own size, which must be that of the rectangle; by the other protocols it is stretched.
        Where the cursor is afterwards depends on the protocol.

        replaces  whether it takes the place of the picture that was drawn so before
        """
        if self.protocol == "sixel":
            return sixel(pixels, self.colors)
        data = png(pixels, effort=_QUICK)
        if self.protocol == "iterm":
            size = f"size={len(data)};width={columns};height={lines};preserveAspectRatio=0"
            return f"\x1b]1337;File=inline=1;{size};doNotMoveCursor=1:{b64encode(data).decode()}\a"
        own = f"i={NUMBER}," if replaces else ""
        return "".join(_kitty(f"a=T,f=100,{own}c={columns},r={lines},C=1,q=2", b64encode(data).decode()))

    def above(self, pixels: np.ndarray, columns: int, lines: int) -> Segment:
        """A picture `[h, w, 3]` over the `lines` above the cursor's, and `columns` wide, as a segment of escape codes.

        The cursor must stand in the first column, and is put back there.
        """
        return _control(f"{BEGINNING}\x1b[{lines}A{self.drawn(pixels, columns, lines)}\x1b8", lines)

    def within(self, pixels: np.ndarray, columns: int, lines: int, *, column: int) -> Segment:
        """A picture `[h, w, 3]` over `columns` x `lines` cells of the terminal, the lowest on the cursor's line.

        column  the first of its columns, from 0

        It takes the place of the picture that was drawn so before. The cursor is put back.
        """
        up = f"\x1b[{lines - 1}A" if lines > 1 else ""
        picture = self.drawn(pixels, columns, lines, replaces=True)
        return _control(f"{BEGINNING}{up}\x1b[{column + 1}G{picture}\x1b8", lines)

    @property
    def gone(self) -> Segment | None:
        """The escape code that removes the picture that the method `within` drew last on the terminal.

        None for iterm and sixel, where text written over the picture removes it.
        """
        return _control(f"\x1b_Ga=d,d=I,i={NUMBER},q=2\x1b\\", 0) if self.protocol == "kitty" else None


def picture_height(segment: Segment) -> int:
    """The lines over which a segment draws a picture, its own and those above; 0 for one that draws none."""
    if not segment.control:
        return 0
    kind, *numbers = segment.control[0]
    return int(numbers[0]) if kind == ControlType.CURSOR_UP and numbers else 0


def _kitty(keys: str, data: str) -> Iterator[str]:
    """The escape codes of one picture, in pieces: all say whether another follows, the first what it is."""
    for start in range(0, len(data), _CHUNK):
        more = f"m={int(start + _CHUNK < len(data))}"
        yield f"\x1b_G{more if start else f'{keys},{more}'};{data[start : start + _CHUNK]}\x1b\\"


def _control(codes: str, lines: int) -> Segment:
    """Escape codes that take no room in a line; Rich and Textual write them as they are."""
    return Segment(codes, None, [(ControlType.CURSOR_UP, lines)])
