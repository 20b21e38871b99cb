"""Maps as a figure for a paper: vector graphics of a given width, labels that can be read, a bar of colours."""

import base64
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from rich.cells import cell_len

from attn_cli.errors import InputError
from attn_cli.text import cut, visible
from attn_cli.views.drawing.heatmap import HeatMap
from attn_cli.views.drawing.palette import Ramp, color_at, ramp_for

_COLOR_TYPES = {1: 0, 3: 2, 4: 6}  # truecolour, and truecolour with alpha (PNG specification, 11.2.2)


def png(pixels: np.ndarray) -> bytes:
    """Bytes `[n, m, 1]` of grey, `[n, m, 3]` of red, green and blue, or `[n, m, 4]` with opacity, as a PNG."""
    height, width, channels = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


MOST_PANELS = 36
MOST_CELLS = 64  # a side that is drawn as rectangles; larger maps are images with hard edges
_POINT = 72 / 25.4  # points in a millimetre
_FONT = "DejaVu Sans, Arial, Helvetica, sans-serif"
_SIZE, _SMALL, _LEAST = 7.0, 6.0, 4.0  # of titles and labels in points; a label smaller than the last is left out
_WIDE = 0.62  # of a letter, in its size: DejaVu Sans is wider than most
_GAP, _BAR = 6.0, 6.0
_VEIL = 0.8  # opacity of black over the part of a picture that has no weight
_MASKED = "#ececec"
_LONGEST = 16  # columns of a token's label


def figure_svg(maps: Sequence[HeatMap], width: float) -> str:
    """All maps side by side and below each other, `width` millimetres wide; they share one scale of colours."""
    if not 0 < len(maps) <= MOST_PANELS:
        raise InputError(f"a figure of {len(maps)} maps: it holds 1 to {MOST_PANELS}", "choose heads with -l and -H")
    kinds = {each.kind for each in maps}
    if len(kinds) > 1 and "scores" in kinds:
        raise InputError("scores and weights in one figure", "it has one scale of colours: draw one of the two")
    finite = np.concatenate([each.values[np.isfinite(each.values)] for each in maps])
    kind = kinds.pop() if len(kinds) == 1 else "change"  # of weights, some are below 0
    ramp = ramp_for(finite, kind, maps[0].scale, light=True)
    columns = 1 if len(maps) == 1 else math.ceil(math.sqrt(len(maps)))
    total = width * _POINT
    each = (total - _BAR - 24 - (columns - 1) * _GAP) / columns
    panels = [_Panel(one, each, ramp) for one in maps]
    body, top = [], 0.0
    for start in range(0, len(panels), columns):
        row = panels[start : start + columns]
        for at, panel in enumerate(row):
            body.append(f'<g transform="translate({at * (each + _GAP):.2f},{top:.2f})">{"".join(panel.parts())}</g>')
        top += max(panel.height for panel in row) + _GAP
    height = top - _GAP
    body += color_bar(ramp, total - _BAR - 20, panels[0].top, min(panels[0].side, 120.0), lit=maps[0].below is not None)
    return document(body, width, height)


def document(body: Sequence[str], width: float, height: float) -> str:
    """An SVG document, `width` millimetres wide, of parts whose coordinates are in points; `height` is in points."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}mm" height="{height / _POINT:.2f}mm" '
        f'viewBox="0 0 {width * _POINT:.2f} {height:.2f}" font-family="{_FONT}" font-size="{_SMALL:g}">'
        '<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


@dataclass(frozen=True, eq=False)
class _Panel:
    """One map in `width` points, its title and its labels."""

    map: HeatMap
    width: float
    ramp: Ramp

    @property
    def shape(self) -> tuple[int, int]:
        n, m = self.map.values.shape
        return n, m

    @property
    def rows(self) -> list[str]:
        return _names(self.map.rows, self.map.block[0], self.map.row_numbers)

    @property
    def columns(self) -> list[str]:
        return _names(self.map.columns, self.map.block[1], None)

    @property
    def left(self) -> float:
        return min(_length(self.rows, self.label_size) + 3, 0.4 * self.width)

    @property
    def label_size(self) -> float:
        n, m = self.shape
        return min(_SMALL, max(0.9 * 0.75 * self.width / max(n, m, 1), _LEAST))

    @property
    def cell(self) -> float:
        return (self.width - self.left) / max(1, self.shape[1])

    @property
    def cell_height(self) -> float:
        n, m = self.shape
        if self.map.below is not None:  # as high as the picture
            height, width = self.map.below.shape
            return self.cell * m / width * height / n
        return self.cell if n <= 2 * m else self.cell * 2 * m / n

    @property
    def turned(self) -> bool:
        return _length(self.columns, self.label_size) > self.cell

    @property
    def top(self) -> float:
        names = _length(self.columns, self.label_size) if self.turned else self.label_size
        return _SIZE + 4 + names + 3

    @property
    def side(self) -> float:
        return self.shape[0] * self.cell_height

    @property
    def height(self) -> float:
        return self.top + self.side + _SMALL + 3

    def parts(self) -> Iterator[str]:
        """Title, names, cells, frame, and what the cells are."""
        values, (n, m) = self.map.values, self.shape
        size = min(_SIZE, (self.width - self.left) / max(1, cell_len(self.map.title)) / _WIDE)
        yield _text(self.left, _SIZE, self.map.title, max(size, _LEAST))
        yield from self._names()
        levels = self.ramp.levels(values)
        frame = f'<rect x="{self.left:.2f}" y="{self.top:.2f}" width="{self.width - self.left:.2f}"'
        frame += f' height="{self.side:.2f}"'
        yield f'{frame} fill="{_MASKED}"/>'
        if self.map.below is not None:
            yield self._picture(self.map.below[..., None])
        yield from self._cells(levels) if max(n, m) <= MOST_CELLS else (self._image(levels),)
        yield f'{frame} fill="none" stroke="#888" stroke-width="0.4"/>'
        block = self.map.block
        words = "" if block == (1, 1) else f", {self.map.pooling} over {block[0]} x {block[1]}"
        note = f"{self.map.row_word} down, {self.map.column_word} across{words}"
        if self.map.image:
            note = f"a cell for each patch of the image{words}"
        yield _text(self.left, self.top + self.side + _SMALL + 1, note, _SMALL - 1, color="#555")

    def _names(self) -> Iterator[str]:
        size = self.label_size
        step = _naming_step(size, self.cell_height)
        for at in range(0, self.shape[0], step):
            y = self.top + (at + 0.5) * self.cell_height + 0.36 * size
            yield _text(self.left - 2, y, self.rows[at], size, anchor="end")
        step = _naming_step(size, self.cell) if self.turned else 1
        for at in range(0, self.shape[1], step):
            x = self.left + (at + 0.5) * self.cell
            if self.turned:
                yield _text(x + 0.36 * size, self.top - 2, self.columns[at], size, turn=True)
            else:
                yield _text(x, self.top - 2, self.columns[at], size, anchor="middle")

    def _cells(self, levels: np.ndarray) -> Iterator[str]:
        """A rectangle for every cell that is not masked, with its number where that has room."""
        size = min(_SMALL, 0.36 * self.cell, 0.7 * self.cell_height) if self.map.below is None else 0
        for i, row in enumerate(levels):
            for j, level in enumerate(row):
                if level != level:
                    continue
                x, y = self.left + j * self.cell, self.top + i * self.cell_height
                fill = f'fill="{color_on_paper(level, self.ramp)}"'
                if self.map.below is not None:
                    fill = f'fill="#000" fill-opacity="{_VEIL * (1 - level):.3f}"'
                yield (
                    f'<rect x="{x:.2f}" y="{y:.2f}" width="{self.cell:.2f}" height="{self.cell_height:.2f}" '
                    f'{fill} shape-rendering="crispEdges"/>'
                )
                if size >= _LEAST:
                    value = f"{self.map.values[i, j]:.2f}".removeprefix("0")
                    middle = y + self.cell_height / 2 + 0.36 * size
                    yield _text(
                        x + self.cell / 2, middle, value, size, anchor="middle", color=ink_on_paper(level, self.ramp)
                    )

    def _image(self, levels: np.ndarray) -> str:
        if self.map.below is not None:
            veil = np.nan_to_num(255 * _VEIL * (1 - levels)).astype(np.uint8)
            return self._picture(np.dstack([np.zeros((*levels.shape, 3), np.uint8), veil]))
        opacities = np.where(np.isnan(levels), 0, 255).astype(np.uint8)
        return self._picture(np.dstack([_cells_as_pixels(levels, self.ramp), opacities]))

    def _picture(self, pixels: np.ndarray) -> str:
        data = base64.b64encode(png(pixels)).decode()
        return (
            f'<image x="{self.left:.2f}" y="{self.top:.2f}" width="{self.width - self.left:.2f}" '
            f'height="{self.side:.2f}" preserveAspectRatio="none" image-rendering="optimizeSpeed" '
            f'style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'
        )


def _names(labels: Sequence[str], block: int, numbers: Sequence[int | str] | None) -> list[str]:
    if block == 1:
        return [cut(written(label), _LONGEST) for label in labels]
    of_rows = range(len(labels)) if numbers is None else numbers
    return [str(of_rows[at]) for at in range(0, len(labels), block)]


def written(text: str) -> str:
    """The text as figures and pages have it: made visible, with a line's end for which more fonts have a glyph."""
    return visible(text.replace("\n", "↵"))


def _naming_step(size: float, cell: float) -> int:
    return 1 if size <= cell else math.ceil(2 * size / cell)


def _length(labels: Sequence[str], size: float) -> float:
    return max((cell_len(label) for label in labels), default=0) * _WIDE * size


def _text(
    x: float, y: float, text: str, size: float, *, anchor: str = "start", color: str = "#000", turn: bool = False
) -> str:
    place = f'transform="translate({x:.2f},{y:.2f}) rotate(-90)"' if turn else f'x="{x:.2f}" y="{y:.2f}"'
    look = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text {place} font-size="{size:.2f}" fill="{color}"{look}>{escape(written(text))}</text>'


def color_bar(ramp: Ramp, left: float, top: float, height: float, *, lit: bool = False) -> Iterator[str]:
    """SVG elements of the colour scale as a bar: from the lowest value, below, to the highest, with three numbers.

    lit  the scale is of black over a picture, from much at the lowest value to none
    """
    steps, bar = 32, f'<rect x="{left:.2f}" width="{_BAR}"'
    for at in range(steps):
        level = 1 - (at + 0.5) / steps
        color = (
            "#{0:02x}{0:02x}{0:02x}".format(round(255 * (1 - _VEIL * (1 - level))))
            if lit
            else color_on_paper(level, ramp)
        )
        place = f'y="{top + height * at / steps:.2f}" height="{height / steps:.2f}"'
        yield f'{bar} {place} fill="{color}" shape-rendering="crispEdges"/>'
    yield f'{bar} y="{top:.2f}" height="{height:.2f}" fill="none" stroke="#888" stroke-width="0.4"/>'
    middle = {"sqrt": 0.25, "log": 10**-1.5}.get(ramp.scale, 0.5) if not ramp.diverging else 0.5
    for level, share in ((0.0, 0.0), (0.5, middle), (1.0, 1.0)):
        value = ramp.low + share * (ramp.high - ramp.low)
        yield _text(left + _BAR + 2, top + height * (1 - level) + 2, f"{value:.2g}", _SMALL - 1)


def color_on_paper(level: float, ramp: Ramp) -> str:
    """The colour, "#rrggbb", of a level from 0 to 1 of the colour scale: white for no weight, grey for a score of 0."""
    return "#{:02x}{:02x}{:02x}".format(*_color_of(level, ramp))


def ink_on_paper(level: float, ramp: Ramp) -> str:
    """Black or white, "#000" or "#fff", whichever is seen better on a cell at `level` of the colour scale, 0 to 1."""
    red, green, blue = _color_of(level, ramp)
    return "#000" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#fff"


def _color_of(level: float, ramp: Ramp) -> tuple[int, int, int]:
    colors = ramp.colors if ramp.diverging else "crameri:batlowW"
    place = level if ramp.diverging else 1 - level
    color = color_at(round(place * 255), colors, "truecolor").get_truecolor()
    return color.red, color.green, color.blue


def _cells_as_pixels(levels: np.ndarray, ramp: Ramp) -> np.ndarray:
    table = np.array([_color_of(level, ramp) for level in np.linspace(0, 1, 256)], dtype=np.uint8)
    pixels: np.ndarray = table[np.rint(np.nan_to_num(levels) * 255).astype(int)]
    return np.where(np.isnan(levels)[..., None], np.uint8(0), pixels)
