"""Text in terminal cells: cut or padded to a width, parts packed into lines, and its styles."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from attn_cli.text import visible
from attn_cli.views.drawing.screen import Screen

BOLD, DIM, PLAIN = Style(bold=True), Style(dim=True), Style.null()


def fit(text: str, width: int) -> str:
    """Visible `text` in exactly `width` terminal cells: padded, or cut with an ellipsis; wide characters count two.

    >>> fit("attention", 6), fit("ab", 4)
    ('atten…', 'ab  ')
    """
    text = visible(text)
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…" if width > 0 else ""


def fit_right(label: str, width: int) -> str:
    """A visible label at the right of `width` terminal cells, the first of which is blank."""
    text = fit(label, width - 1).rstrip()
    return " " * (width - cell_len(text)) + text


def fit_path(path: str, width: int) -> str:
    """A visible path in at most `width` terminal cells: whole, or the last folders and the file's name that fit.

    >>> fit_path("/home/ada/models/smollm2.gguf", 24), fit_path("smollm2.gguf", 8)
    ('…/models/smollm2.gguf', 'smollm2…')
    """
    path = visible(path)
    if cell_len(path) <= width:
        return path
    parts = path.rsplit("/", max(width, 0) + 1)  # no more fit: each has its slash
    ends = ("/".join(["…", *parts[first:]]) for first in range(1, len(parts)))
    return next((end for end in ends if cell_len(end) <= width), fit(parts[-1], width))


def packed(parts: Sequence[str], width: int, between: str = " · ") -> list[str]:
    """Parts joined by `between` into as few lines of at most `width` cells as it takes.

    >>> packed(["one", "two", "three"], 10)
    ['one · two', 'three']
    >>> packed(["of two words", "unbreakable"], 8)
    ['of two', 'words', 'unbreak…']
    """
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1]) + cell_len(between) + cell_len(part) <= width:
            lines[-1] += between + part
        elif cell_len(part) <= width:
            lines.append(part)
        else:
            words = part.split(" ")
            lines += packed(words, width, " ") if len(words) > 1 else [fit(part, width)]
    return lines


def packed_text(parts: Sequence[str], screen: Screen, style: Style = PLAIN, between: str = " · ") -> Text:
    """Parts joined by `between` into as few lines of the screen's width as it takes, in one style."""
    return Text("\n".join(packed(parts, screen.width, between)), style)


def joined(line: Iterable[Segment]) -> Iterator[Segment]:
    """The segments of a line with neighbours of one style merged, in time linear in its length, which Rich's is not."""
    for (style, is_control), run in groupby(line, key=lambda segment: (segment.style, bool(segment.control))):
        if is_control:
            yield from run
        else:
            yield Segment("".join(segment.text for segment in run), style)
