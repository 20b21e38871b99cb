"""The nearest words as lines with bars."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from attn_cli.summaries.answers.nearest import Neighbours
from attn_cli.summaries.report import Report
from attn_cli.text import visible
from attn_cli.views.drawing.bars import bar_line
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_texts

_ON_AXES = 8  # words


def draw(neighbours: Neighbours, report: Report, screen: Screen) -> Iterator[Text | str]:
    """A line per word found: the word, its cosine with the vector asked for, and a bar as long as it (none below 0)."""
    yield ""
    yield Text("nearest by cosine", Style(bold=True))
    label = max(10, min(max((cell_len(visible(word)) for word in neighbours.words), default=0) + 1, screen.width // 3))
    for word, cosine in zip(neighbours.words, neighbours.cosines.tolist(), strict=True):
        yield bar_line(word, label, cosine, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the nearest words as points in the plane; of a single one the words nearest to it."""
    assert isinstance(report.answer, Neighbours)
    near = [word for word in report.answer.words if word.isalpha()][:_ON_AXES]
    if len(near) > 1:
        return on_texts("plane", [" ".join(near)], invocation.words({"model"}))
    return on_texts("nearest", report.answer.words[:1], invocation.words({"model"})) if report.answer.words else None
