"""The overview of a text: several kinds of parts on one screen, each of them short."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType

from attn_cli.summaries.reducers.heads.head_statistics import Heads
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.views.answers import draw_parts, drawer, heads, parted
from attn_cli.views.answers.kinds import any_judged
from attn_cli.views.drawing.console import console_for
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input


def draw_overview(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The parts of all calls, then those of single ones.

    On a screen each gets what those above it leave; those above are shorter where what stands below then fits, too.
    """
    if screen.height is None:
        yield from draw_parts(report, screen)
        return
    alone = parted(report)[1]
    above = _above(report, screen)
    yield from above
    screen = screen.below(_height(above, screen))
    for part, summary in alone:
        yield from drawer(part.name)(part, summary, report, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The matrix of the head that is most worth a look, else of the sharpest."""
    if next(report.parts_of(Heads), None) is None:
        return None
    for summary, matrix in report.parts_of(Matrix):
        if matrix.reason and matrix.heads:
            return on_same_input("matrix", report, invocation, "-H", f"{summary.place.layer}.{matrix.heads[0]}")
    return heads.next_words(report, invocation)


def _above(report: Report, screen: Screen) -> list[RenderableType]:
    """The parts of all calls: short where the map below then fits, too, and no grid of kinds makes way for it."""
    below = 0
    if not any_judged(report.summaries):
        alone = parted(report)[1]
        below = sum(_height(drawer(part.name)(part, summary, report, screen), screen) for part, summary in alone)
    short = list(_together(report, screen, below))
    if _height(short, screen) + below <= (screen.height or 0):
        return short
    return list(_together(report, screen, 0))


def _together(report: Report, screen: Screen, below: int) -> Iterator[RenderableType]:
    """The parts of all calls, on a screen of which `below` lines are left for others."""
    for part, summary in parted(report)[0]:
        left = screen
        for renderable in drawer(part.name)(part, summary, report, screen.below(below)):
            left = left.below(_height([renderable], screen))
            yield renderable
        screen = left


def _height(renderables: Iterable[RenderableType], screen: Screen) -> int:
    """The lines that they take on the screen, where words may wrap."""
    return sum(len(console_for(screen).render_lines(renderable)) for renderable in renderables)
