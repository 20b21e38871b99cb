"""Points in the plane as characters: two panels, before and after, with the same axes and the same scale."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from attn_cli.summaries.answers.plane import Plane
from attn_cli.summaries.report import Report
from attn_cli.text import visible
from attn_cli.views.drawing.cells import fit, packed, packed_text
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_given_texts

_TEXT_STYLES = tuple(Style(color=name) for name in ("cyan", "yellow", "magenta", "green", "red", "blue"))
_BESIDE = 100  # from so many columns on, the panels stand side by side
_LONGEST_LABEL = 16
_NAMED = 8  # at most this many of the words without room are named


def draw(plane: Plane, report: Report, screen: Screen) -> Iterator[Text | str]:
    """Words as points in the plane, before attention and after, then what the axes are."""
    yield ""
    several = len(set(plane.texts)) > 1
    gap = 2
    beside = screen.width >= _BESIDE
    width = (screen.width - gap) // 2 if beside else screen.width
    grid = _Grid(np.concatenate([plane.before, plane.after]), width - 2)
    styles = [_TEXT_STYLES[text % len(_TEXT_STYLES)] if several else PLAIN for text in plane.texts]
    marks = [str(text + 1) if several else "•" for text in plane.texts]
    words = _names(plane)
    panels = []
    for title, points, was in (
        ("before attention", plane.before, None),
        ("after attention", plane.after, plane.before),
    ):
        panel = _Panel(grid, screen.ascii_only)
        if was is not None:
            panel.trace(was)
        missing = panel.draw(points, marks, words, styles)
        panels.append([Text(fit(title, width), BOLD), *panel.lines(), *_unlabelled(missing, width)])
    if beside:
        height = max(map(len, panels))
        left, right = ([*lines, *[Text(" " * width)] * (height - len(lines))] for lines in panels)
        for left_line, right_line in zip(left, right, strict=True):
            left_line = left_line.copy()
            left_line.pad_right(max(0, width - left_line.cell_len))
            yield Text().append_text(left_line).append(" " * gap).append_text(right_line)
    else:
        yield from (line for lines in panels for line in lines)
    yield packed_text(_legend(plane, several), screen, DIM)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: a word that two texts share, compared; else the overview of the first text."""
    texts: list[str | None] = list(invocation.words({"texts"}))
    shared = _shared_word(report) if len(texts) == 2 else None
    if shared is not None:
        return on_given_texts("compare", texts, invocation, "--word", shared)
    return on_given_texts("inspect", texts[:1], invocation)


def _shared_word(report: Report) -> str | None:
    first, second = ([token.text.lower() for token in prompt.tokens if not token.special] for prompt in report.prompts)
    words = [word for word in first if word.isalpha() and first.count(word) == second.count(word) == 1]
    return max(words, key=len, default=None)


def _legend(plane: Plane, several: bool) -> list[str]:
    first, last = plane.layers
    layer_words = f"layer {first}" if first == last else f"into layer {first}, out of layer {last}"
    layer_words += ", normalised vectors" if plane.unit else ""
    shares = [f"{share:.0%} across" if at == 0 else f"{share:.0%} up" for at, share in enumerate(plane.shares.tolist())]
    parts = [
        layer_words,
        "axes: most of the variance",
        ", ".join(shares),
        "both panels to one scale",
        "◦ where a word was",
    ]
    parts += ["1, 2: which text, *: several"] if several else []
    return parts + (["--unit compares directions alone"] if plane.outgrown and not plane.unit else [])


def _names(plane: Plane) -> list[str]:
    """The words as labels; the second "the" of a text is the#2."""
    counts: dict[tuple[int, str], int] = {}
    names = []
    for text, token in zip(plane.texts, plane.tokens, strict=True):
        times = counts[text, token.text] = counts.get((text, token.text), 0) + 1
        names.append(visible(token.text) if times == 1 else f"{visible(token.text)}#{times}")
    return names


def _unlabelled(missing: Sequence[str], width: int) -> list[Text]:
    labels = [fit(word, _LONGEST_LABEL).rstrip() for word in missing[:_NAMED]]
    more = [f"and {len(missing) - _NAMED} more"] if len(missing) > _NAMED else []
    lines = packed(["without a name in the drawing, for lack of room:", *labels, *more], width, " ") if missing else []
    return [Text(line, DIM) for line in lines]


class _Grid:
    """Maps points to cells, with rows such that both axes have one scale (a cell is twice as high as wide)."""

    def __init__(self, points: np.ndarray, columns: int) -> None:
        low, high = points.min(axis=0), points.max(axis=0)
        spread = np.maximum(high - low, 1e-12)
        self.low, self.columns = low, columns
        point_columns = max(columns - 1 - min(_LONGEST_LABEL, columns // 4), 1)  # labels stand right of their points
        tallest = max(8, columns // 4)
        self.unit = max(spread[0] / point_columns, spread[1] / (2 * (tallest - 1)))
        self.rows = max(3, round(spread[1] / (2 * self.unit)) + 1)

    def cell(self, point: np.ndarray) -> tuple[int, int]:
        column = 2 * round(float((point[0] - self.low[0]) / (2 * self.unit)))
        row = self.rows - 1 - round(float((point[1] - self.low[1]) / (2 * self.unit)))
        return min(max(row, 0), self.rows - 1), min(max(column, 0), (self.columns - 1) // 2 * 2)


@dataclass
class _Spot:
    """All points of one cell: their marks and words; words that differ only in their number count once."""

    marks: dict[str, None]
    words: dict[str, str]
    style: Style

    @property
    def mark(self) -> str:
        return next(iter(self.marks)) if len(self.marks) == 1 else "*"


class _Panel:
    """A frame of characters with styles."""

    def __init__(self, grid: _Grid, ascii_only: bool) -> None:
        self.grid, self.ascii_only = grid, ascii_only
        self.cells = [[(" ", PLAIN)] * grid.columns for _ in range(grid.rows)]
        self.occupied = np.zeros((grid.rows, grid.columns), dtype=bool)

    def trace(self, points: np.ndarray) -> None:
        for point in points:
            row, column = self.grid.cell(point)
            self.cells[row][column] = ("◦", DIM)

    def draw(
        self, points: np.ndarray, marks: Sequence[str], words: Sequence[str], styles: Sequence[Style]
    ) -> list[str]:
        """Draw all points, each with its words where there is room; returns the words without room."""
        spots: dict[tuple[int, int], _Spot] = {}
        for point, mark, word, style in zip(points, marks, words, styles, strict=True):
            spot = spots.setdefault(self.grid.cell(point), _Spot({}, {}, style))
            spot.marks[mark] = None
            base = word.partition("#")[0] or word
            spot.words[base] = base if base in spot.words else word
            if style != spot.style:
                spot.style = PLAIN
        for (row, column), spot in spots.items():
            self._write(row, column, spot.mark, spot.style + BOLD)
        return [word for place, spot in spots.items() for word in self._label(place, spot)]

    def _label(self, place: tuple[int, int], spot: _Spot) -> list[str]:
        """Write the words of a spot right of it, left of it, above or below; returns the words without room."""
        row, column = place
        words = list(spot.words.values())
        for count in range(len(words), 0, -1):
            more = f" +{len(words) - count}" if count < len(words) else ""
            label = " ".join(fit(word, _LONGEST_LABEL).rstrip() for word in words[:count]) + more
            width = cell_len(label)
            for line, start in (
                (row, column + 2),
                (row, column - width - 1),
                (row - 1, column + 1),
                (row + 1, column + 1),
                (row - 1, column - width),
                (row + 1, column - width),
            ):
                if self._free(line, start, width):
                    self._write(line, start, label, spot.style)
                    return words[count:]
        return words

    def _free(self, row: int, start: int, width: int) -> bool:
        if not 0 <= row < self.grid.rows or start < 0 or start + width > self.grid.columns:
            return False
        return not self.occupied[row, max(start - 1, 0) : start + width + 1].any()  # a blank on both sides

    def _write(self, row: int, column: int, text: str, style: Style) -> None:
        at = column
        for letter in text:
            width = cell_len(letter)
            if at >= self.grid.columns:
                return
            if width == 0:  # a character of width 0, such as an accent, joins the one before it
                base, look = self.cells[row][at - 1]
                self.cells[row][at - 1] = (base + letter, look)
                continue
            self.cells[row][at] = (letter, style)
            self.occupied[row, at : at + width] = True
            for hidden in range(at + 1, min(at + width, self.grid.columns)):
                self.cells[row][hidden] = ("", style)
            at += width

    def lines(self) -> list[Text]:
        """The lines of a panel, with the frame around it."""
        flat, upright = ("-", "|") if self.ascii_only else ("─", "│")
        above, below = ("++", "++") if self.ascii_only else ("┌┐", "└┘")
        body = []
        for cells in self.cells:
            line = Text().append(upright, DIM)  # the style of a Text would be that of the words as well
            for letter, style in cells:
                line.append(letter, style)
            body.append(line.append(upright, DIM))
        top, bottom = (Text(ends[0] + flat * self.grid.columns + ends[1], DIM) for ends in (above, below))
        return [top, *body, bottom]
