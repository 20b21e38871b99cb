"""Draws answers and parts as lines and maps, each by the function `draw` in the file of its name.

draw(part, summary, report, screen)   a part of one attention call; with `part.together`, of all calls at once
draw(answer, report, screen)          an answer that is not one part per attention call
"""

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module

from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.report import Report
from attn_cli.views.answers.kinds import any_judged
from attn_cli.views.drawing.console import console_for
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import DIM


def drawer(name: str) -> Callable[..., Iterator[RenderableType]]:
    """The `draw` of the part or answer of that name, imported when it is first drawn."""
    return import_module(f"{__name__}.{name}").draw


def draw_answer(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The report's answer, or the parts of its summaries."""
    if report.answer is None:
        yield from draw_parts(report, screen)
    else:
        yield from drawer(report.answer.name)(report.answer, report, screen)


def _together(report: Report, screen: Screen, below: int) -> Iterator[RenderableType]:
    """The parts that are drawn together for all calls, on a screen of which `below` lines are left for others."""
    parts = [(part, summary) for summary in report.summaries for part in summary.parts if part.together]
    first = {part.name: (part, summary) for part, summary in reversed(parts)}
    shared = report.is_overview and screen.height is not None  # each part gets what those above it leave
    for name in dict.fromkeys(part.name for part, _ in parts):
        part, summary = first[name]
        left = screen
        for renderable in drawer(name)(part, summary, report, screen.below(below)):
            left = left.below(_height([renderable], screen)) if shared else left
            yield renderable
        screen = left


def _overview(report: Report, screen: Screen) -> list[RenderableType]:
    """What stands together: short where the map below then fits, too, and no grid of kinds makes way for it."""
    alone = [(part, summary) for summary in report.summaries for part in summary.parts if not part.together]
    below = 0 if any_judged(report.summaries) else sum(
        _height(drawer(part.name)(part, summary, report, screen), screen) for part, summary in alone)  # fmt: skip
    short = list(_together(report, screen, below))
    if screen.height is None or _height(short, screen) + below <= screen.height:
        return short
    return list(_together(report, screen, 0))


def _height(renderables: Iterable[RenderableType], screen: Screen) -> int:
    """The lines that they take on the screen, where words may wrap."""
    return sum(len(console_for(screen).render_lines(renderable)) for renderable in renderables)


def draw_parts(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """First the parts that are drawn together for all calls, then call by call, then footnotes.

    In an overview each gets what those above it leave of the screen; those above are shorter where what stands below
    then fits, too.
    """
    parts = [(part, summary) for summary in report.summaries for part in summary.parts]
    if report.is_overview and screen.height is not None:
        above = _overview(report, screen)
        yield from above
        screen = screen.below(_height(above, screen))
    else:
        yield from _together(report, screen, 0)
    for part, summary in parts:
        if not part.together:
            yield from drawer(part.name)(part, summary, report, screen)
    for footnote in dict.fromkeys(part.footnote for part, _ in parts if part.footnote):
        yield Text(footnote, DIM)
