"""Kinds of heads as a grid of layers and heads, with a legend that names the heads that look things up."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from attn_cli.selection import ranges
from attn_cli.summaries.answers.kinds import SinkKey
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.kinds import BACK, CONTENT, FIRST, KINDS, MARKS, PLACE, SELF, UNIFORM, Kind
from attn_cli.summaries.reducers.kinds.head_kinds import HeadKinds
from attn_cli.summaries.reducers.kinds.kind_sums import FEW_ROWS, LEAST_OF_FEW, LEAST_ROWS, NOT_JUDGED, NOTHING
from attn_cli.summaries.report import Report
from attn_cli.text import counted
from attn_cli.views.drawing.cells import packed_text
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM

_STYLES = {CONTENT: Style(color="green", bold=True), PLACE: Style(color="cyan")}
_MOST_CELLS = 24  # heads of a layer whose cells have a digit, too
_MARKS, _ASCII_MARKS = "█▓░░·", "#+.. "  # of a head that finds content, a place, rests or spreads, and of none
_FEW_LINES = 16  # of a grid: with more layers they stand side by side, where there is room
_BETWEEN = "   "
_MOST_SINKS = 4


BeforeMap = Callable[[Sequence[Summary], Screen], Iterator[Text]]
"""Draws what is said of the calls of a stream above the legend of their map."""


@dataclass(frozen=True)
class GridRow:
    """One line of the grid: the heads of one layer.

    label  the layer's number, with the run where it runs several times
    kinds  for every head its place in `KINDS`, or one of the numbers for none
    number what it is named by, 0 to 1
    """

    label: str
    heads: tuple[int, ...]
    groups: tuple[int, ...]
    kinds: tuple[int, ...]
    numbers: tuple[float, ...]


def draw(part: HeadKinds, summary: Summary, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The heads that stand out by name, the grid and its legend; nothing where heads aren't judged."""
    if any_judged(report.summaries):
        yield ""
        yield Text("what heads do · attn heads --kinds", BOLD)
        yield from draw_kinds(kind_parts(report.summaries), screen)


def kind_parts(summaries: Sequence[Summary]) -> list[tuple[Summary, HeadKinds]]:
    """Every call with its kinds."""
    return [(summary, part) for summary in summaries if (part := summary.part(HeadKinds)) is not None]


def any_judged(summaries: Sequence[Summary]) -> bool:
    """True if the text is long enough for the kind of any head."""
    return any((part.judged.kind != NOT_JUDGED).any() for _, part in kind_parts(summaries))


def draw_kinds(
    parts: Sequence[tuple[Summary, HeadKinds]], screen: Screen, before: BeforeMap | None = None
) -> Iterator[Text]:
    """For every stream the heads that find content by name, the legend, and below it the map.

    before  draws what stands above the legend of a stream instead
    """
    streams = list(dict.fromkeys(summary.place.stream for summary, _ in parts))
    for stream in streams:
        of_stream = [(summary, part) for summary, part in parts if summary.place.stream == stream]
        if len(streams) > 1:
            yield Text(stream, BOLD)
        if all((part.judged.kind == NOT_JUDGED).all() for _, part in of_stream):
            yield too_few(screen)
            continue
        yield from content_lines(of_stream, screen) if before is None else before([x for x, _ in of_stream], screen)
        rows = [_row(summary, part, of_stream) for summary, part in of_stream]
        yield from legend(of_stream, screen, in_words=before is not None, letters=has_letters(rows, screen))
        yield from grid(rows, screen)


def _row(summary: Summary, part: HeadKinds, of_stream: Sequence[tuple[Summary, HeadKinds]]) -> GridRow:
    place, judged = summary.place, part.judged
    several = sum(other.place.layer == place.layer for other, _ in of_stream) > 1
    label = f"{place.layer}/{place.call}" if several and place.call else str(place.layer)
    numbers = [float(judged.number[kind, at]) if kind >= 0 else 0.0 for at, kind in enumerate(judged.kind.tolist())]
    return GridRow(label, place.heads, place.groups, tuple(judged.kind.tolist()), tuple(numbers))


def grid(rows: Sequence[GridRow], screen: Screen) -> Iterator[Text]:
    """A line for each layer and a cell for each head; those that share a key head stand together.

    Layers stand side by side where there are many and the screen is wide enough.
    """
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
    """True if the cells of a grid have letters; heads that are too many for two columns each have marks."""
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
        """Columns of a line."""
        return self.label + 1 + len(self.gaps) + len(self.heads) * (self.cell + (self.cell > 1))

    def blocks(self, screen: Screen) -> int:
        """The number of lines that fit side by side."""
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
        """A layer."""
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
        """The first column of the cell of the head at this place."""
        gaps = sum(head <= self.heads[at] for head in self.gaps)
        return self.label + 1 + gaps + at * (self.cell + (self.cell > 1)) + (self.cell > 1)


def _gaps(rows: Sequence[GridRow], heads: Sequence[int]) -> tuple[int, ...]:
    """The heads that don't share a key head with the head before them; none where no heads share one, or all do."""
    groups = {head: group for row in rows for head, group in zip(row.heads, row.groups, strict=True)}
    gaps = tuple(head for before, head in pairwise(heads) if groups[before] != groups[head])
    return gaps if len(set(groups.values())) < len(heads) else ()


def cell_text(kind: int, number: float, columns: int, *, ascii_only: bool = False) -> str:
    """A head in a grid: its kind's letter and tenths of its number; of one column a mark for what it finds.

    >>> cell_text(0, 0.66, 2), cell_text(0, 0.2, 1), cell_text(NOTHING, 0.0, 2)
    ('I6', '█', ' -')
    """
    if columns == 1:
        marks = _ASCII_MARKS if ascii_only else _MARKS
        return marks[KINDS[kind].rank] if kind >= 0 else marks[-1] if kind == NOTHING else "?"
    return f"{kind_letter(kind)}{min(9, int(number * 10))}" if kind >= 0 else kind_letter(kind).rjust(columns)


def kind_letter(kind: int) -> str:
    """The letter of a kind; of that of most heads of many models a small one, which lets the others stand out."""
    if kind < 0:
        return "-" if kind == NOTHING else "?"
    return KINDS[kind].letter.lower() if KINDS[kind] is FIRST else KINDS[kind].letter


def cell_style(kind: int) -> Style:
    """Kinds that find content stand out, those of places have a colour, the others are dim."""
    return _STYLES.get(KINDS[kind].rank, DIM) if kind >= 0 else DIM


def too_few(screen: Screen) -> Text:
    """Why no head is named, and what names them."""
    return packed_text([
        "too few tokens to name heads", f"each kind needs {LEAST_ROWS} queries with a target",
        "attn heads --kinds -m MODEL names them",
    ], screen, DIM)  # fmt: skip


def legend(
    of_stream: Sequence[tuple[Summary, HeadKinds]], screen: Screen, *, in_words: bool = False, letters: bool = True
) -> Iterator[Text]:
    """The letters of the map with the count of heads of every other kind, and the baselines of all.

    in_words  whether counts are told above: then the letters of all kinds are here, without counts
    """
    judged = [part.judged for _, part in of_stream]
    counts = Counter(kind for each in judged for kind in each.kind.tolist())
    by = "non-sink attention" if judged[0].by_share else "the weight"
    digit = [f"digit: tenths of {by}"] if letters else []
    names = (letters_in_words(counts) if letters else marks_in_words(screen)) if in_words else counts_in_words(counts)
    yield packed_text([*names, *digit, *([] if in_words else _chances(of_stream, counts))], screen, DIM)


def letters_in_words(counts: Mapping[int, int]) -> list[str]:
    """`I induction`, `2-8 tokens back`, `- none`: the letters of the kinds that heads are of."""
    words = [f"{kind_letter(at)} {kind.words}" for at, kind in enumerate(KINDS) if counts[at] and kind not in BACK]
    backs = [f"{kind.letter}" for at, kind in enumerate(KINDS) if counts[at] and kind in BACK]
    words += [f"{' '.join(backs)} so many tokens back"] if backs else []
    others = ((NOTHING, "nothing in common"), (NOT_JUDGED, "not judged"))
    return words + [f"{kind_letter(kind)} {name}" for kind, name in others if counts[kind]]


def marks_in_words(screen: Screen) -> list[str]:
    """The marks of heads in a map without letters."""
    marks = _ASCII_MARKS if screen.ascii_only else _MARKS
    found = ("finds content", "looks at a place", "rests on a sink or marks, or spreads")
    words = [f"{marks[rank]} {work}" for rank, work in zip((CONTENT, PLACE, MARKS), found, strict=True)]
    return [*words, f"{marks[-1].strip() or 'blank'} nothing in common"]


def counts_in_words(counts: Mapping[int, int]) -> list[str]:
    """`P previous 12`, `2-8 back 3`, `- none 5`: how many heads are of each kind that doesn't find content.

    counts  by place in `KINDS`, or one of the numbers for none
    """
    words: list[str] = []
    for number, kind in enumerate(KINDS):
        if kind.rank != CONTENT and kind.back in (None, -1, 0, 1) and counts[number]:
            words.append(f"{kind_letter(number)} {kind.words} {counts[number]}")
        if kind is SELF and (back := sum(counts[at] for at, other in enumerate(KINDS) if (other.back or 0) > 1)):
            words.append(f"2-8 back {back}")
    others = ((NOTHING, "none"), (NOT_JUDGED, "not judged"))
    return words + [f"{kind_letter(kind)} {name} {counts[kind]}" for kind, name in others if counts[kind]]


def named_heads(words: str, kind: int, heads: Iterable[str], screen: Screen) -> Text:
    """`I induction 19  18.6 0.91  17.3 0.82`: as many heads of a kind, each with its number, as fit a line."""
    text = Text(words, cell_style(kind))
    for head in heads:
        if len(text) + 2 + len(head) > screen.width:
            break
        text.append(f"  {head}")
    return text


def _chances(of_stream: Sequence[tuple[Summary, HeadKinds]], counts: Mapping[int, int]) -> list[str]:
    """`chance I D 0.015, P 0.036`, of the kinds that heads are of; those of one chance together."""
    letters: dict[str, list[str]] = {}
    for number, kind in enumerate(KINDS):
        if counts[number] and kind not in (UNIFORM, FIRST) and kind.back in (None, -1, 0, 1):
            chance = _chance(of_stream, number)
            if np.isfinite(chance):
                letters.setdefault(f"{chance:.3f}", []).append(kind.letter)
    words = [f"{' '.join(of)} {chance}" for chance, of in letters.items()]
    return [f"baseline {', '.join(words)}"] if words else []


def content_lines(of_stream: Sequence[tuple[Summary, HeadKinds]], screen: Screen) -> Iterator[Text]:
    """The heads that find content, by name: a line for each kind."""
    counts = Counter(kind for _, part in of_stream for kind in part.judged.kind.tolist())
    for number, kind in enumerate(KINDS):
        if kind.rank == CONTENT:
            yield from _content_line(number, kind, counts[number], of_stream, screen)


def _content_line(
    number: int, kind: Kind, count: int, of_stream: Sequence[tuple[Summary, HeadKinds]], screen: Screen
) -> Iterator[Text]:
    """`I induction 19  18.6 0.91  17.3 0.82`, as many as fit; on few rows those that would be named on more."""
    rows = max(int(part.judged.rows[number]) for _, part in of_stream)
    if not count and not 0 < rows < LEAST_ROWS:
        return
    heads = ranked_heads(of_stream, number, named=bool(count))
    if not heads:
        return
    words = [f"{kind.letter} {kind.words}", str(count) if count else "none" if rows >= FEW_ROWS else "not judged"]
    if rows < FEW_ROWS:
        words.append(f"on {counted(rows, 'row')}:")
    elif rows < LEAST_ROWS:
        words.append(f"of {LEAST_OF_FEW} or more on {rows} rows:")
    yield named_heads(" ".join(words), number, (f"{name} {value:.2f}" for name, value in heads), screen)


def ranked_heads(
    of_stream: Sequence[tuple[Summary, HeadKinds]], number: int, *, named: bool = True
) -> list[tuple[str, float]]:
    """The heads of one kind with their numbers, largest first; not `named`, those whose numbers are high enough."""
    heads = []
    for summary, part in of_stream:
        judged = part.judged
        values = judged.measured[number]
        is_so = judged.kind == number if named else judged.high[number]
        heads += [(f"{summary.place.layer}.{head}", float(values[at])) for at, head in enumerate(summary.place.heads)
                  if is_so[at]]  # fmt: skip
    return sorted(heads, key=lambda head: -head[1])


def _chance(of_stream: Sequence[tuple[Summary, HeadKinds]], number: int) -> float:
    """The mean over layers of the chance of a kind."""
    chances = [part.judged.baseline[number] for _, part in of_stream if np.isfinite(part.judged.baseline[number])]
    return float(np.mean(chances)) if chances else float("nan")


def sink_lines(sinks: Sequence[SinkKey], screen: Screen) -> Iterator[Text]:
    """A line for each sink of the text."""
    for sink in sinks[:_MOST_SINKS]:
        kind = "hub" if sink.is_hub else "sink"
        numbers = [f"{kind} {token_label(sink.token)}", f"{sink.heads:.0%} of heads", f"weight {sink.weight:.3f}"]
        numbers += [f"value {sink.value:.2f} x"] if sink.value is not None else []
        numbers += [f"residual {sink.residual:.0f} x"] if sink.residual is not None else []
        yield packed_text(numbers, screen, DIM)
