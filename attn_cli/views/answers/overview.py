"""The overview of a text: the story of its answer, then its parts; and what to ask after it."""

from collections.abc import Iterator

from rich.console import RenderableType

from attn_cli.summaries.reducers.heads.head_statistics import Heads
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.views.answers import draw_parts, heads, story
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input


def draw(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The story of the answer, then the parts of all calls and those of single ones."""
    if report.story is not None:
        yield from story.draw(report.story, screen)
    yield from draw_parts(report, screen)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the matrix of the head that stands out, else of the most focused."""
    if next(report.parts_of(Heads), None) is None:
        return None
    for summary, matrix in report.parts_of(Matrix):
        if matrix.reason and matrix.heads:
            return on_same_input("matrix", report, invocation, "-H", f"{summary.place.layer}.{matrix.heads[0]}")
    return heads.next_words(report, invocation)
