"""What to ask after the overview of a text."""

from attn_cli.summaries.reducers.heads.head_statistics import Heads
from attn_cli.summaries.reducers.matrix import Matrix
from attn_cli.summaries.report import Report
from attn_cli.views.answers import heads
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The matrix of the head that stands out, else of the most focused."""
    if next(report.parts_of(Heads), None) is None:
        return None
    for summary, matrix in report.parts_of(Matrix):
        if matrix.reason and matrix.heads:
            return on_same_input("matrix", report, invocation, "-H", f"{summary.place.layer}.{matrix.heads[0]}")
    return heads.next_words(report, invocation)
