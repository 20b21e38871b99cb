"""The overview of a text: several kinds of parts on one screen, each of them short."""

from collections.abc import Iterator

from rich.console import RenderableType

from attn_cli.summaries.reduce import Part, Summary
from attn_cli.summaries.reducers.heads.head_statistics import Heads
from attn_cli.summaries.reducers.kinds.head_kinds import HeadKinds
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.reducers.received import Received
from attn_cli.summaries.report import Report
from attn_cli.views.answers import drawer, heads, kinds, matrices, parted, received
from attn_cli.views.drawing.fitting import Section, fitted, whole
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input


def draw_overview(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The parts of all calls, then those of single ones, as much of each as the screen has room for."""
    together, alone = parted(report)
    sections = [
        section for part, summary in (*together, *alone) for section in _sections(part, summary, report, screen)
    ]
    yield from fitted(sections, screen)


def _sections(part: Part, summary: Summary, report: Report, screen: Screen) -> list[Section]:
    if isinstance(part, Heads):
        return heads.sections(report, screen)
    if isinstance(part, HeadKinds):
        return kinds.sections(report, screen)
    if isinstance(part, Received):
        return received.sections(part, report, screen)
    if isinstance(part, Matrix):
        return matrices.sections(part, summary, report, screen)
    return [whole(*drawer(part.name)(part, summary, report, screen))]


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The matrix of the head that is most worth a look, else of the sharpest."""
    if next(report.parts_of(Heads), None) is None:
        return None
    for summary, matrix in report.parts_of(Matrix):
        if matrix.reason and matrix.heads:
            return on_same_input("matrix", report, invocation, "-H", f"{summary.place.layer}.{matrix.heads[0]}")
    return heads.next_words(report, invocation)
