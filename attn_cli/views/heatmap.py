"""A matrix as cells on a screen: numbers where they fit, then colour alone, then two rows to a line."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from attn_cli.views.palette import ASCII_SHADES, NEGATIVE_SHADES, SHADES, Ramp, background, color_at, ramp_for, shade
from attn_cli.views.screen import Screen, packed
from attn_cli.views.tokens import fit, visible

_TALLEST = 40  # more rows than this go two to a line where colour allows it
_DIM = Style(dim=True)


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A rendering of `values [n, m]` in which rows are queries and columns are keys.

    kind     "weights" (0 .. max, viridis), anything else is a signed quantity (diverging about 0)
    title    what the map shows, without size and range, which are added
    rows     labels, right of the map because wide characters can't push columns about there
    columns  labels over the cells where they fit, else numbers
    row_numbers  the query index of every row where rows were picked; None means 0, 1, 2, ...
    block    (rows, keys) that a cell stands for, with the `pooling` that made it
    """

    values: np.ndarray
    kind: str
    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    screen: Screen
    scale: str = "linear"
    block: tuple[int, int] = (1, 1)
    pooling: str = "max"
    row_numbers: Sequence[int] | None = None
    axes: str = "rows = queries, columns = keys"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The title, column labels, cells and legend, line by line."""
        for line in self.lines():
            yield from Segment.simplify(line)
            yield Segment.line()

    def lines(self) -> list[list[Segment]]:
        """Everything as lines of segments."""
        ramp = ramp_for(self.values, self.kind, self.scale)
        levels = ramp.levels(self.values)
        width, number = self._cell()
        halved = width == 1 and self.values.shape[0] > _TALLEST and self.screen.depth in ("truecolor", "256")
        body = self._halved(levels, ramp) if halved else self._cells(levels, ramp, width, number)
        legend = self._legend(ramp)
        return [*self._heading(), self._header(width), *body, *([legend] if legend else [])]

    def _label_width(self) -> int:
        longest = max((len(visible(label)) for label in self._row_labels()), default=0)
        return min(longest, max(8, self.screen.width // 5))

    def _row_labels(self) -> list[str]:
        height, numbers = self.block[0], self.row_numbers or range(len(self.rows))
        if height == 1:
            pairs = zip(numbers, self.rows, strict=True)
            return [f"{index} {label}" if label != str(index) else label for index, label in pairs]
        return [f"{numbers[at]}-{numbers[min(at + height, len(numbers)) - 1]}" for at in range(0, len(numbers), height)]

    def _cell(self) -> tuple[int, str]:
        """The width of a cell and the number format in it, the most telling that fits; "" is no number."""
        room = self.screen.width - self._label_width() - 1
        m = self.values.shape[1]
        finite = self.values[np.isfinite(self.values)]
        for number in (".3f", ".2f", ".1f", "hundredths", ""):
            if number == "hundredths":
                if self.kind != "weights":
                    continue
                width = 3 if m * 3 <= room else 2
            elif number:
                if number == ".1f" and self.kind == "weights":
                    continue
                width = (
                    max((len(f"{x:{number}}") for x in (finite.min(), finite.max())), default=3) + 1
                    if finite.size
                    else 5
                )
            else:
                width = 2 if m * 2 <= room else 1
            if m * width <= room:
                return min(width + 1, 8) if number == ".3f" and m * (width + 1) <= room else width, number
        return 1, ""

    def _heading(self) -> list[list[Segment]]:
        n, m = len(self.rows), len(self.columns)
        finite = self.values[np.isfinite(self.values)]
        parts = [self.title, f"{n} x {m}"]
        if finite.size:
            parts.append(f"min {finite.min():.3g} max {finite.max():.3g}")
        if self.block != (1, 1):
            parts.append(f"each cell the {self.pooling} over {self.block[0]} x {self.block[1]}")
        parts.append(self.axes)
        return [[Segment(line, Style(bold=True))] for line in packed(parts, self.screen.width)]

    def _header(self, width: int) -> list[Segment]:
        """Column labels: words over wide cells, numbers over narrow ones, a number every tenth over the narrowest."""
        step = self.block[1]
        m = self.values.shape[1]
        if width >= 5 and step == 1:
            return [Segment("".join(fit(visible(label), width - 1).rstrip().rjust(width) if _simple(label)
                                    else fit(label, width) for label in self.columns), _DIM)]  # fmt: skip
        if step == 1 and len(str(m - 1)) < width:
            return [Segment("".join(f"{index:>{width}}" for index in range(m)), _DIM)]
        every = 5 if width > 1 else 10
        marks = "".join(f"{at * step:<{every * width}}" for at in range(0, m, every))
        return [
            Segment(
                marks[: max(m * width, len(f"{(m - 1) // every * every * step}") + (m - 1) // every * every * width)],
                _DIM,
            )
        ]

    def _cells(self, levels: np.ndarray, ramp: Ramp, width: int, number: str) -> list[list[Segment]]:
        labels = self._row_labels()
        lines = []
        for row, label in enumerate(labels):
            line = [
                Segment(
                    self._text(float(self.values[row, key]), float(levels[row, key]), ramp, width, number),
                    background(float(levels[row, key]), ramp, self.screen.depth),
                )
                for key in range(self.values.shape[1])
            ]
            lines.append([*line, Segment(" " + fit(label, self._label_width()).rstrip())])
        return lines

    def _text(self, value: float, level: float, ramp: Ramp, width: int, number: str) -> str:
        if self._blank(value):
            return ("." if self.screen.ascii_only else "·").rjust(width)
        if number == "hundredths":
            return ("1." if round(value * 100) >= 100 else str(round(value * 100))).rjust(width)
        if number:
            return f"{value:{number}}".rjust(width)
        if self.screen.depth in ("16", "none"):
            return shade(level, ramp, ascii_only=self.screen.ascii_only) * width
        return " " * width

    def _blank(self, value: float) -> bool:
        """Whether a cell holds no number worth reading: blocked, or a weight of exactly 0."""
        return not np.isfinite(value) or (value == 0 and self.kind == "weights")

    def _halved(self, levels: np.ndarray, ramp: Ramp) -> list[list[Segment]]:
        """Two matrix rows to a line: the upper half block's foreground and background are one cell each."""
        labels = self._row_labels()
        lines = []
        for top in range(0, levels.shape[0], 2):
            line = []
            for key in range(levels.shape[1]):
                upper = levels[top, key]
                lower = levels[top + 1, key] if top + 1 < levels.shape[0] else np.nan
                style = Style(color=self._color(upper, ramp), bgcolor=self._color(lower, ramp))
                line.append(Segment("▀" if upper == upper else ("▄" if lower == lower else " "),
                                    style if upper == upper else Style(color=self._color(lower, ramp))))  # fmt: skip
            lines.append([*line, Segment(" " + fit(labels[top], self._label_width()).rstrip())])
        return lines

    def _color(self, level: float, ramp: Ramp):  # type: ignore[no-untyped-def]
        return None if level != level else color_at(round(level * 255), ramp.diverging, self.screen.depth)

    def _legend(self, ramp: Ramp) -> list[Segment]:
        """From low to high in colour or in shades, with numbers at the ends and what is special said."""
        low, high = f"{ramp.low:.3g} ", f" {ramp.high:.3g}"
        notes = []
        if self._cell()[1] == "hundredths":
            notes.append("cells in hundredths")
        if self.scale != "linear" and self.kind == "weights":
            notes.append(f"{self.scale} scale" if self.scale != "row" else "each row to its own maximum")
        if self._cell()[1] and any(self._blank(float(value)) for value in self.values.flat):
            notes.append(("." if self.screen.ascii_only else "·") + (" = 0" if self.kind == "weights" else " = masked"))
        tail = "".join("  " + note for note in notes)
        if self.screen.depth in ("truecolor", "256"):
            steps = [background(at / 15, ramp, self.screen.depth) for at in range(16)]
            bar = [Segment(" ", style) for style in steps]
        elif self._cell()[1]:
            bar, low, high, tail = [], "", "", tail.strip()
        else:
            shades = ASCII_SHADES if self.screen.ascii_only else SHADES
            bar = [Segment((NEGATIVE_SHADES[:0:-1] if ramp.diverging else "") + shades)]
        parts = [Segment(low, _DIM), *bar, Segment(high + tail, _DIM)]
        return [part for part in parts if part.text.strip() or part.style]


def _simple(label: str) -> bool:
    """Whether every character takes one cell, so that it may be right-aligned by length."""
    return label.isascii()
