"""A matrix as cells on a screen: numbers where they fit, then colour alone, then two rows to a line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import isfinite

import numpy as np
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table

from attn_cli.text import visible
from attn_cli.views.drawing.cells import BOLD, DIM, fit, fit_right, joined, packed
from attn_cli.views.drawing.palette import NEGATIVE_SHADES, SHADES, Ramp, background, foreground, ramp_for, shade
from attn_cli.views.drawing.screen import TALLEST, Screen, label_columns
from attn_cli.views.drawing.segments import MASKED_STEP, half_cell, steps_of

ZEROS_MARKED = ("weights", "change")  # kinds of which a 0 is a mark, so that the other numbers stand out
_MARK = "·"  # of a masked cell, of a weight of exactly 0, and of the lowest weight, as a blank is a masked one
_FEW_KEYS = 4  # with so few keys, one with half of the weight is no sink
_LEAST_WEIGHT = 0.05  # on any key but the sink, for a map
_GAP, _NARROWEST = 3, 30  # columns between two maps, and of the title of one beside another
_FEW_PATCHES = 8  # an image with at most this many columns may have numbers in its cells


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A drawing of `values` `[n, m]` on a screen, in which rows are queries and columns are keys.

    kind         "weights" (0 .. max, viridis); anything else is signed and diverges about 0
    row_numbers  the query index or name of every row; None means 0, 1, 2, ...; so for columns
    block        (rows, keys) that a cell stands for, pooled by `pooling`
    ends         the smallest and the largest of all pooled numbers where cells don't show both; else None
    image        whether cells are patches of an image; then only small maps have numbers
    below        the picture `[height, width, 3]` that the cells lie on
    lit          the lines of that picture in the light of the cells; none on a screen without half blocks
    marked       (row, column) of the cell that is told, which a figure frames
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
    ends: tuple[float, float] | None = None
    row_numbers: Sequence[int | str] | None = None
    column_numbers: Sequence[int | str] | None = None
    column_word: str = "keys"
    row_word: str = "queries"
    image: bool = False
    below: np.ndarray | None = None
    lit: Sequence[list[Segment]] = ()
    marked: tuple[int, int] | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.lines():
            yield from joined(line)
            yield Segment.line()

    def lines(self) -> list[list[Segment]]:
        """Everything as lines of segments; a sentence in place of a map that would have one colour."""
        if self._is_blank:
            return [*self._heading(), *self._blank()]
        if self.lit:
            said = f"full colour: {self._finite.max():.3g}, faded: less"
            return [[Segment(fit(self.title, self.screen.width).rstrip(), BOLD)], *self.lit, [Segment(said, DIM)]]
        body = self._halved() if self._halves else self._cells()
        return [*self._heading(), [self._header()], *body, *self._legend(), *self._hint()]

    @cached_property
    def _ramp(self) -> Ramp:
        return ramp_for(self.colored, self.kind, self.scale, light=self.screen.light)

    @cached_property
    def sink(self) -> int | None:
        """The column that holds more than half of the weight, which has no colour; None where colours are of all."""
        m = self.values.shape[1]
        if self.kind != "weights" or self.scale != "linear" or m <= _FEW_KEYS or self.image:
            return None
        received = np.where(np.isfinite(self.values), self.values, 0.0).sum(axis=0)
        key = int(np.argmax(received))
        return key if received[key] * 2 > received.sum() else None

    @property
    def colored(self) -> np.ndarray:
        """The values that have a colour: all but the sink's."""
        return self.values if self.sink is None else np.delete(self.values, self.sink, axis=1)

    @property
    def _is_blank(self) -> bool:
        is_seen = self.screen.height is not None or self.screen.depth != "none"
        return is_seen and self.sink is not None and float(np.max(self.colored, initial=0.0)) < _LEAST_WEIGHT

    @cached_property
    def _levels(self) -> np.ndarray:
        return self._ramp.levels(self.values)

    @cached_property
    def _finite(self) -> np.ndarray:
        return self.values[np.isfinite(self.values)]

    @cached_property
    def _labels(self) -> list[str]:
        """A label for every row: its number and its token; of pooled rows, the numbers that a line stands for."""
        numbers = self.row_numbers or range(len(self.rows))
        height = self.block[0] * (2 if self._halves and self.block[0] > 1 else 1)
        if height == 1:
            pairs = zip(numbers, self.rows, strict=True)
            return [f"{index} {label}" if label != str(index) else label for index, label in pairs]
        ends = [(numbers[at], numbers[min(at + height, len(numbers)) - 1]) for at in range(0, len(numbers), height)]
        spans = [f"{first}-{last}" for first, last in ends]
        if max(map(len, spans)) <= label_columns(self.screen):
            return spans
        return [str(first) for first, _ in ends]

    @cached_property
    def _label_width(self) -> int:
        return min(max((cell_len(visible(label)) for label in self._labels), default=0), label_columns(self.screen))

    @cached_property
    def _cell(self) -> tuple[int, str]:
        """The width of a cell and the number format in it, the most telling that fits; "" is no number."""
        if self._halves:
            return 1, ""
        columns = self.screen.width - self._label_width - 1
        m = self.values.shape[1]
        if self.image and m > _FEW_PATCHES:
            return (2 if m * 2 <= columns else 1), ""
        ends = (self._finite.min(), self._finite.max()) if self._finite.size else (0.0,)
        for number in ("z.3f", "z.2f") if self.kind == "weights" else ("z.3f", "z.2f", "z.1f"):  # z: no -0.000
            width = max(4, *(len(f"{end:{number}}") for end in ends)) + 1
            if m * width <= columns:
                return (width + 1 if number == "z.3f" and width < 8 and m * (width + 1) <= columns else width), number
        if self.kind == "weights" and m * 3 <= columns:  # in two columns, 12 17 16 would read as one number
            return 3, "hundredths"
        return (2 if m * 2 <= columns else 1), ""

    def _text(self, value: float, level: float) -> str:
        """The text of the cell of a value; `level` is the value's place on the colour scale, 0 to 1."""
        width, number = self._cell
        is_masked = value == float("-inf") and self.kind != "output"
        if is_masked and self.kind == "weights":
            return " " * width
        if is_masked or (number and value == 0 and self.kind in ZEROS_MARKED):
            return _MARK.rjust(width)
        if not isfinite(value):
            return ("?" if width < 4 else f"{value}").rjust(width)
        if number == "hundredths":
            return ("1." if round(value * 100) >= 100 else str(round(value * 100))).rjust(width)
        if number:
            return f"{value:{number}}".rjust(width)
        if self.screen.depth not in ("16", "none"):
            return " " * width
        drawn = shade(level, self._ramp)
        return (self._lowest if drawn == " " else drawn) * width

    @property
    def _lowest(self) -> str:
        """The character of the lowest level of the colour scale: blank, but a mark where a blank is a masked weight."""
        return " " if self.kind != "weights" or self.image else _MARK

    @property
    def _halves(self) -> bool:
        columns = self.screen.width - label_columns(self.screen) - 1
        tall = self.image or self.values.shape[0] > TALLEST
        return self.screen.halves and tall and self.values.shape[1] * 2 > columns

    @property
    def title_lines(self) -> int:
        """The number of lines above the column labels."""
        return len(self._heading())

    @property
    def width(self) -> int:
        """The columns of the terminal that the cells and row labels take."""
        return self.values.shape[1] * self._cell[0] + self._label_width + 1

    @property
    def _has_ramp(self) -> bool:
        return self.screen.depth != "none" or not self._cell[1]

    def _heading(self) -> list[list[Segment]]:
        parts = [*self.title.split(" · "), f"{len(self.rows):,} x {len(self.columns):,}"]
        pooled = self.block != (1, 1)
        if self._finite.size:
            low, high = self.ends or (self._finite.min(), self._finite.max())
            known = self.ends is not None or not pooled
            parts.append(f"min {low:.3g} max {high:.3g}" if known else f"cells {low:.3g} to {high:.3g}")
        if pooled:
            parts.append(f"{self.pooling} over {self.block[0]} x {self.block[1]}")
        axes = f"rows = {self.row_word}, columns = {self.column_word}"
        parts.append("rows and columns of patches" if self.image else axes)
        return [[Segment(line, BOLD)] for line in packed(parts, self.screen.width)]

    def _header(self) -> Segment:
        width, step, m = self._cell[0], self.block[1], self.values.shape[1]
        if step == 1 and (width >= 5 or len(str(m - 1)) < width):
            labels = self.columns if width >= 5 else [str(index) for index in self.column_numbers or range(m)]
            return Segment("".join(fit_right(label, width) for label in labels), DIM)
        every = 5 if width > 1 else 10
        marks = [f"{at * step:<{every * width}}" for at in range(0, m, every)]
        return Segment("".join(marks).rstrip(), DIM)

    def _cells(self) -> list[list[Segment]]:
        numbers, depth = self._cell[1], self.screen.depth
        style = background if numbers or depth in ("truecolor", "256") else foreground
        lines = []
        for row, label in enumerate(self._labels):
            levels = self._levels[row].tolist()
            line = [
                Segment(self._text(value, level), style(level, self._ramp, depth))
                for value, level in zip(self.values[row].tolist(), levels, strict=True)
            ]
            if self.sink is not None and self._has_ramp:
                line[self.sink] = self._uncolored(self.values[row, self.sink])
            lines.append([*line, self._label(label)])
        return lines

    def _uncolored(self, value: float) -> Segment:
        if value == float("-inf"):
            return Segment(" " * self._cell[0])
        text = self._text(value, 0.0) if self._cell[1] else "▒" * self._cell[0]
        return Segment(text, DIM)

    def _halved(self) -> list[list[Segment]]:
        """Two matrix rows to a line: the upper half block's foreground and background are one cell each."""
        lines, steps = list[list[Segment]](), steps_of(self._levels)
        labels = self._labels[::2] if self.block[0] == 1 else self._labels
        for top, label in zip(range(0, self.values.shape[0], 2), labels, strict=True):
            below = steps[top + 1] if top + 1 < len(steps) else np.full(steps.shape[1], MASKED_STEP)
            pairs = zip(steps[top].tolist(), below.tolist(), strict=True)
            line = [Segment(*half_cell(upper, lower, self._ramp.colors, self.screen.depth)) for upper, lower in pairs]
            if self.sink is not None:
                line[self.sink] = Segment("▒", DIM)
            lines.append([*line, self._label(label)])
        return lines

    def _label(self, label: str) -> Segment:
        return Segment(" " + fit(label, self._label_width).rstrip())

    def _legend(self) -> list[list[Segment]]:
        """The colours or shades from low to high, with numbers at the ends, and the meaning of special cells."""
        ramp, depth = self._ramp, self.screen.depth
        notes, bar = list[str](), list[Segment]()
        if self._has_ramp:
            row = self.scale == "row" and not ramp.diverging
            ends = ("0 ", " each row's maximum") if row else (f"{ramp.low:z.3g} ", f" {ramp.high:z.3g}")
            notes.append(f"{'linear' if ramp.diverging else self.scale} scale")
            bar = [Segment(ends[0], DIM), *self._color_bar(depth), Segment(ends[1], DIM)]
        if self._cell[1] == "hundredths":
            is_full = (np.round(self._finite * 100) >= 100).any()
            notes.append("cells in hundredths" + (", 1. for 100" if is_full else ""))
        masked = np.isneginf(self.values) & (self.kind != "output")
        if masked.any():
            notes.append(f"{'blank' if self._halves or self.kind == 'weights' else _MARK} = masked")
        if (~np.isfinite(self.values) & ~masked).any() and self._cell[0] < 4:
            notes.append(f"{'blank' if self._halves else '?'} = NaN or Inf")
        if self.kind in ZEROS_MARKED and self._cell[1] and (self.values == 0).any():
            notes.append(f"{_MARK} = 0")
        used = sum(cell_len(part.text) for part in bar)
        first = [*bar]
        while notes and bar and used + 2 + len(notes[0]) <= self.screen.width:
            used += 2 + len(notes[0])
            first.append(Segment("  " + notes.pop(0), DIM))
        rest = [[Segment(line, DIM)] for line in packed(notes, self.screen.width, "  ")]
        return ([first] if first else []) + rest

    def _color_bar(self, depth: str) -> list[Segment]:
        if depth in ("truecolor", "256"):
            return [Segment(" ", background(at / 15, self._ramp, depth)) for at in range(16)]
        middles = [(at + 0.5) / 5 for at in range(5)]
        if self._cell[1]:
            return [Segment("  ", background(level, self._ramp, depth)) for level in middles]
        marks = self._lowest + SHADES[1:]
        if self._ramp.diverging:
            marks = NEGATIVE_SHADES[:0:-1] + SHADES
            middles = [at / (len(marks) - 1) for at in range(len(marks))]
        pairs = zip(marks, middles, strict=True)
        return [Segment(mark, foreground(level, self._ramp, depth)) for mark, level in pairs]

    def _hint(self) -> list[list[Segment]]:
        """A line that names the coloured columns, where a column has no colour; none where all have one."""
        if self.sink is None or not self._has_ramp:
            return []
        drawn = "hatched" if not self._cell[1] else "uncoloured"
        half = f"{self.sink_name} holds more than half of the weight and is {drawn}: colours are of the rest"
        parts = [half, *self.screen.hint("(--color-scale raw: of all)")]
        return [[Segment(line, DIM)] for line in packed(parts, self.screen.width, " ")]

    def _blank(self) -> list[list[Segment]]:
        assert self.sink is not None
        held = self.values[:, self.sink]
        least, rest = float(held[np.isfinite(held)].min()), float(np.max(self.colored, initial=0.0))
        parts = [f"no picture: every row gives {self.sink_name} {np.floor(1000 * least) / 1000:.3f} or more,"]
        parts += [
            f"and any other key at most {np.ceil(1000 * rest) / 1000:.3f}",
            *self.screen.hint("(--color-scale raw draws it)"),
        ]
        return [[Segment(line)] for line in packed(parts, self.screen.width, " ")]

    @property
    def sink_name(self) -> str:
        """The sink by its number and token."""
        key = self.sink or 0
        name = f"{key} {visible(self.columns[key])}" if self.block[1] == 1 else f"a key near {key * self.block[1]}"
        return fit(name, 24).rstrip()


def kind_of(name: str, values: np.ndarray) -> str:
    """How numbers of that name are coloured: "scores", else "weights" (from 0 on), or "change" if any is below 0."""
    if name == "scores":
        return name
    return "change" if np.any((values < 0) & np.isfinite(values)) else "weights"


def arranged(maps: Sequence[HeatMap], screen: Screen) -> Iterator[RenderableType]:
    """Maps with an empty line above each: in files and pipes one below the other, on a terminal side by side."""
    if screen.height is None:
        yield from (part for each in maps for part in ("", each))
        return
    for _, group in groupby(maps, key=lambda each: each.values.shape):
        alike = list(group)
        across = max(1, min((screen.width + _GAP) // (max(alike[0].width, _NARROWEST) + _GAP), len(alike)))
        narrow = replace(screen, width=(screen.width - _GAP * (across - 1)) // across)
        for start in range(0, len(alike), across):
            yield ""
            row = [replace(each, screen=narrow) if across > 1 else each for each in alike[start : start + across]]
            yield row[0] if across == 1 else _beside(row, narrow.width)


def _beside(maps: Sequence[HeatMap], width: int) -> Table:
    """Maps side by side, `width` columns each: shorter titles stand lower, so that cells are at one height."""
    deepest, grid = max(each.title_lines for each in maps), Table.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
    for _ in maps:
        grid.add_column(width=width)
    grid.add_row(*(Group(*[""] * (deepest - each.title_lines), each) for each in maps))
    return grid
