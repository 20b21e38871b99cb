"""The letters of kinds as a grid: a line a layer, a cell a head; several layers in a line where there is room."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.style import Style
from rich.text import Text

from attn_cli.selection import ranges
from attn_cli.summaries.reducers.kinds.head_kinds import BACK, CONTENT, FIRST, KINDS, MARKS, PLACE
from attn_cli.summaries.reducers.kinds.kind_sums import NOTHING
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM

_STYLES = {CONTENT: Style(color="green", bold=True), PLACE: Style(color="cyan")}
_MOST_CELLS = 24  # heads of a layer whose cells have a digit, too
_MARKS, _ASCII_MARKS = "█▓░░·", "#+.. "  # of a head that finds content, a place, rests or spreads, and of none
_FEW_LINES = 16  # of a grid: with more layers they stand side by side, where there is room
_BETWEEN = "   "


@dataclass(frozen=True)
class GridRow:
    """One line of the map of heads: the heads of one layer.

    label    the layer's number; with the number of the call where the layer is called several times
    heads    the numbers of the heads
    groups   of every head the number of the key head that it reads
    kinds    of every head the index of its kind (induction, previous token ...) in `KINDS`; `NOTHING` for no kind,
             `NOT_JUDGED` where too few rows tell
    numbers  of every head its weight or share on the keys that define the kind, 0 to 1
    """

    label: str
    heads: tuple[int, ...]
    groups: tuple[int, ...]
    kinds: tuple[int, ...]
    numbers: tuple[float, ...]


def grid(rows: Sequence[GridRow], screen: Screen) -> Iterator[Text]:
    """The map of heads: a line a layer, a cell a head; heads that share a key head adjoin."""
    best, heads = _layout(rows, screen)
    blocks = best.blocks(screen) if len(rows) > _FEW_LINES else 1
    height = -(-len(rows) // blocks)
    columns = [rows[start : start + height] for start in range(0, len(rows), height)]
    for line in range(height + 1):
        text = Text()
        for column in columns:
            if line == 0:
                text.append(("" if column is columns[0] else _BETWEEN) + best.heading(), BOLD)
            elif line <= len(column):
                text.append("" if column is columns[0] else _BETWEEN).append_text(best.line(column[line - 1], screen))
        yield text
    if len(best.heads) < len(heads):
        yield Text(f"left out: heads {ranges(heads[len(best.heads) :])}, for which the screen is too narrow", DIM)


def has_letters(rows: Sequence[GridRow], screen: Screen) -> bool:
    """True if each head of the map has two columns, for the letter of its kind and a digit; else each has one mark."""
    return _layout(rows, screen)[0].cell == 2


def _layout(rows: Sequence[GridRow], screen: Screen) -> tuple["_Layout", Sequence[int]]:
    """The widest layout that fits, and the numbers of all heads."""
    heads = sorted({head for row in rows for head in row.heads})
    label = max(5, *(len(row.label) for row in rows))
    gaps = _gaps(rows, heads)
    for layout in (_Layout(label, heads, gaps, 2), _Layout(label, heads, gaps, 1), _Layout(label, heads, (), 1)):
        best = layout
        if layout.cell == 2 and len(heads) > _MOST_CELLS:
            continue
        if layout.width <= screen.width and (layout.blocks(screen) > 1 or len(rows) <= _FEW_LINES or layout.cell == 2):
            break
    if best.width > screen.width:  # so many heads that only the first fit
        best = _Layout(label, heads[: screen.width - label - 1], (), 1)
    return best, heads


@dataclass(frozen=True)
class _Layout:
    """The columns of cells on a line of the grid.

    label  columns for the layer's number
    gaps   the heads before which a column stays free
    cell   columns of a cell: 2 for a letter and a digit, 1 for a mark
    """

    label: int
    heads: Sequence[int]
    gaps: Sequence[int]
    cell: int

    @property
    def width(self) -> int:
        return self.label + 1 + len(self.gaps) + len(self.heads) * (self.cell + (self.cell > 1))

    def blocks(self, screen: Screen) -> int:
        return max(1, (screen.width + len(_BETWEEN)) // (self.width + len(_BETWEEN)))

    def heading(self) -> str:
        """The numbers of the heads; of cells of one column every fifth, where it stands."""
        text = "layer".ljust(self.label + 1)
        for at, head in enumerate(self.heads):
            column = self._column(at)
            if self.cell == 2:
                text = text.ljust(column) + f"{head:>2}"
            elif head % 5 == 0 and column >= len(text) + (at > 0):
                text = text.ljust(column) + str(head)
        return text[: self.width].ljust(self.width)

    def line(self, row: GridRow, screen: Screen) -> Text:
        """The line of one layer of the grid: its label, and the letter of each head in its column."""
        text = Text(row.label.rjust(self.label))
        cells = {head: (kind, number) for head, kind, number in zip(row.heads, row.kinds, row.numbers, strict=True)}
        for at, head in enumerate(self.heads):
            text.append(" " * (self._column(at) - len(text)))
            if head in cells:
                text.append(
                    cell_text(*cells[head], self.cell, ascii_only=screen.ascii_only), cell_style(cells[head][0])
                )
        text.append(" " * (self.width - len(text)))
        return text

    def _column(self, at: int) -> int:
        gaps = sum(head <= self.heads[at] for head in self.gaps)
        return self.label + 1 + gaps + at * (self.cell + (self.cell > 1)) + (self.cell > 1)


def _gaps(rows: Sequence[GridRow], heads: Sequence[int]) -> tuple[int, ...]:
    groups = {head: group for row in rows for head, group in zip(row.heads, row.groups, strict=True)}
    gaps = tuple(head for before, head in pairwise(heads) if groups[before] != groups[head])
    return gaps if len(set(groups.values())) < len(heads) else ()


def cell_text(kind: int, number: float, columns: int, *, ascii_only: bool = False) -> str:
    """A head in the map: its kind's letter and the tenths of its number; with one column a mark.

    >>> cell_text(0, 0.66, 2), cell_text(0, 0.198, 2), cell_text(0, 0.2, 1), cell_text(NOTHING, 0.0, 2)
    ('I6', 'I2', '█', ' -')
    """
    if columns == 1:
        marks = _ASCII_MARKS if ascii_only else _MARKS
        return marks[KINDS[kind].rank] if kind >= 0 else marks[-1] if kind == NOTHING else "?"
    return f"{kind_letter(kind)}{min(9, round(100 * number) // 10)}" if kind >= 0 else kind_letter(kind).rjust(columns)


def marks_in_words(screen: Screen) -> list[str]:
    """The meaning of each mark of a head in a map that has no room for letters: `█ finds content` ..., `no kind`."""
    marks = _ASCII_MARKS if screen.ascii_only else _MARKS
    found = ("finds content", "looks at a place", "rests on a sink or marks, or spreads")
    words = [f"{marks[rank]} {work}" for rank, work in zip((CONTENT, PLACE, MARKS), found, strict=True)]
    return [*words, f"{marks[-1].strip() or 'blank'} no kind"]


def kind_letter(kind: int) -> str:
    """The letter of a kind of head in the map, by its index in `KINDS`."""
    if kind < 0:
        return "-" if kind == NOTHING else "?"
    if KINDS[kind] in BACK:
        return "B"
    return KINDS[kind].letter.lower() if KINDS[kind] is FIRST else KINDS[kind].letter


def cell_style(kind: int) -> Style:
    """The style of a head in the map: bold for heads that find content, a colour for kinds of a place."""
    return _STYLES.get(KINDS[kind].rank, DIM) if kind >= 0 else DIM
