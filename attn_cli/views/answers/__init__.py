"""Draws answers and parts as lines and maps, each by the function `draw` in the file of its name.

draw(part, summary, report, screen)   a part of one attention call; with `part.together`, of all calls at once
draw(answer, report, screen)          an answer that is not one part per attention call
"""

from collections.abc import Callable, Iterator
from importlib import import_module

from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from attn_cli.summaries.report import Report
from attn_cli.views.drawing.cells import height_of
from attn_cli.views.drawing.screen import Screen

_DIM = Style(dim=True)


def drawer(name: str) -> Callable[..., Iterator[RenderableType]]:
    """The `draw` of the part or answer of that name, imported when it is first drawn."""
    draw: Callable[..., Iterator[RenderableType]] = import_module(f"{__name__}.{name}").draw
    return draw


def draw_answer(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The report's answer, or the parts of its summaries."""
    if report.answer is None:
        yield from draw_parts(report, screen)
    else:
        yield from drawer(report.answer.name)(report.answer, report, screen)


def draw_parts(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """First the parts that are drawn together for all calls, then call by call, then footnotes.

    In an overview each gets what those above it leave of the screen.
    """
    parts = [(part, summary) for summary in report.summaries for part in summary.parts]
    together = {part.name: (part, summary) for part, summary in reversed(parts) if part.together}
    for name in dict.fromkeys(part.name for part, _ in parts if part.together):
        part, summary = together[name]
        left = screen
        for renderable in drawer(name)(part, summary, report, screen):
            left = left.below(height_of(renderable))
            yield renderable
        screen = left if report.is_overview else screen
    for part, summary in parts:
        if not part.together:
            yield from drawer(part.name)(part, summary, report, screen)
    for footnote in dict.fromkeys(part.footnote for part, _ in parts if part.footnote):
        yield Text(footnote, _DIM)
