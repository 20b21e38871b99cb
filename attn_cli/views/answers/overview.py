"""What to ask after the overview of a text."""

from attn_cli.summaries.reducers.heads.head_statistics import Heads
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
<<<<<<< HEAD
from attn_cli.views.answers import heads
=======
from attn_cli.views.answers import drawer, heads, kinds, matrices, parted, received, story
from attn_cli.views.drawing.fitting import Section, fitted, whole
from attn_cli.views.drawing.screen import Screen
>>>>>>> 166e55c (The overview of a model that writes says what comes next, the words that it rests on and the heads that bring them, each with its bits)
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input


<<<<<<< HEAD
=======
def draw_overview(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """The parts of all calls, then those of single ones, as much of each as the screen has room for."""
    together, alone = parted(report)
    sections = [] if report.story is None else story.sections(report.story, screen)
    sections += [
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


>>>>>>> 166e55c (The overview of a model that writes says what comes next, the words that it rests on and the heads that bring them, each with its bits)
def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The matrix of the head that stands out, else of the most focused."""
    if next(report.parts_of(Heads), None) is None:
        return None
    for summary, matrix in report.parts_of(Matrix):
        if matrix.reason and matrix.heads:
            return on_same_input("matrix", report, invocation, "-H", f"{summary.place.layer}.{matrix.heads[0]}")
    return heads.next_words(report, invocation)
